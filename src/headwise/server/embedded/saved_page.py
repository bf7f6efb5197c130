"""The page as one file that needs no server: the front end, and every answer that it will ask for."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.errors import ModelError
from headwise.server.app import static
from headwise.server.embedded.in_process import Inside, Reply
from headwise.server.payloads.array_pack import pack, unpack
from headwise.server.state.app_state import Settings
from headwise.server.state.run_cache import Held
from headwise.storage.atomic_write import write_atomically

if TYPE_CHECKING:
    from headwise.models.run import Run

PIXELS = 700_000  # of all maps of a file together
WEIGHTS = 300_000  # exact weights that a file holds, where a text is that short
BITS = 12  # of the fraction of a number of a token: relative rounding 1e-4
STATISTICS = ("entropy", "max_weight", "peak", "distance", "first", "previous", "self", "sink", "write_share")  # of each token

Responses = dict[str, dict[str, Any]]


def save_html(run: "Run", path: Path) -> None:
    """Write the page of a run.

    Raises:
        ModelError: the run has no model, or the file cannot be written.
    """
    write(path, run_page(run))


def five_moves_html(path: str | Path) -> None:
    """Write the five moves as one file for teaching: every matrix, verdict and attack, with 1, 2 and 4 heads.

    Raises:
        ModelError: the file cannot be written.
    """
    write(Path(path), moves_page())


def run_page(run: "Run") -> str:
    """The page of a run as HTML."""
    if run.model is None:
        raise ModelError("a run must have its model to be shown, got one without. Make it with model.run(text).")
    server = Inside(Settings([run.model], "file"))
    try:
        return page("model", dict(_of_run(server, run)))
    finally:
        server.close()


def moves_page() -> str:
    """The page of the five moves as HTML."""
    server = Inside(Settings([], "file"))
    try:
        return page("moves;h=2", dict([_state(server), _session(), *_plain(server, ["/api/moves"])]))
    finally:
        server.close()


def page(address: str, responses: Responses) -> str:
    """The front end with what it will ask for.

    Raises:
        ModelError: the front end's files are not there.
    """
    folder = static()
    try:
        style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("bundle.css", "bundle.js"))
    except OSError as error:
        raise ModelError(f"the page's bundle must be there, got {error.strerror} in {str(folder)!r}. Install headwise again.") from None
    recorded = json.dumps({"address": address, "responses": responses}, separators=(",", ":")).replace("<", "\\u003c")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>headwise</title>'
    body = f'<div data-headwise-page></div><script type="application/json" id="headwise-recorded">{recorded}</script>'
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    style = style.replace("</style", "<\\/style")
    inside = f'<body class="headwise-page">{body}<script type="module">{script}</script></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{style}</style></head>{inside}</html>\n'


def write(path: Path, words: str) -> None:
    try:
        write_atomically(path, words)
    except OSError as error:
        raise ModelError(f"file must be one that can be written, got {str(path)!r} ({error.strerror}). Choose another path.") from None


def _of_run(server: Inside, run: "Run") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every answer about one run."""
    from headwise.server.embedded.notebook_widget import words_of
    from headwise.server.payloads.text_run import facts_of

    words = words_of(run)
    (model,) = server.desk.library.shelf
    facts = {"model": model, "id": "file", **facts_of(run.model, run, words)}  # pyright: ignore[reportArgumentType]
    held = Held("file", model, words, run, facts, {"file"})
    server.desk.keep.runs[held.id] = held
    for part in facts["parts"]:
        part["recorded_level"] = _level(facts["parts"], part["top_level"])
    yield _state(server, words)
    yield _session()
    told = Reply(200, "application/json", json.dumps(facts).encode())
    yield _record("POST", "/api/runs", told)
    yield _record("GET", "/api/runs/file", told)
    yield from _plain(server, ["/api/runs/file/proof"])
    for number, part in enumerate(facts["parts"]):
        yield from _of_part(server, part, "" if number == 0 else f"part={part['name']}")


def _of_part(server: Inside, part: dict[str, Any], query: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Grid, writes, thumbnails, and every head: numbers of each token, its map in one level, its weights where they are few."""
    ending = f"?{query}" if query else ""
    yield from _plain(server, [f"/api/runs/file/{name}{ending}" for name in ("grid", "writes", "thumbnails")])
    heads = [(layer, head) for layer, count in enumerate(part["heads_of"]) for head in range(count)]
    few = len(heads) * part["queries"] * part["keys"] <= WEIGHTS
    for layer, head in heads:
        path = f"/api/runs/file/heads/{layer}/{head}{ending}"
        yield _record("GET", path, _shortened(server.ask("GET", path)))
        if few:
            yield from _plain(server, [f"/api/runs/file/weights/{layer}/{head}{ending}"])
        path = f"/api/runs/file/tiles/{layer}/{head}/{part['recorded_level']}/0/0{ending}"
        yield _record("GET", path, _coded(server.ask("GET", path)))


def _level(parts: list[dict[str, Any]], top: int) -> int:
    """The finest level at which the maps of all heads have no more pixels than a file may hold; one tile a map."""
    heads = sum(sum(part["heads_of"]) for part in parts)
    return max(level for level in range(min(top, 8) + 1) if heads * 4**level <= PIXELS or level <= 4)


def _shortened(reply: Reply) -> Reply:
    """Numbers of each token with fewer digits, so that they can be packed."""
    found = unpack(reply.body)
    arrays = {name: _rounded(x) if x.dtype.kind == "f" else x for name, x in found.pop("arrays").items() if name in STATISTICS}
    return Reply(reply.status, reply.type, pack(arrays, found))


def _rounded(x: np.ndarray) -> np.ndarray:
    """The same floats with a shorter fraction, the rest of it 0."""
    spare = 23 - BITS
    bits = (x.astype(np.float32).view(np.uint32).astype(np.uint64) + (1 << (spare - 1))) & ~np.uint64((1 << spare) - 1)
    return np.where(np.isfinite(x), bits.astype(np.uint32).view(np.float32), x)


def _coded(reply: Reply) -> Reply:
    """A tile in 8 bits."""
    import torch

    from headwise.server.payloads.weight_maps import coded

    found = unpack(reply.body)
    tile = coded(torch.from_numpy(found.pop("arrays")["tile"].astype(np.float32)))
    return Reply(reply.status, reply.type, pack({"tile": tile}, {**found, "encoding": "sqrt8"}))


def _state(server: Inside, text: str | None = None) -> tuple[str, dict[str, Any]]:
    """The server's state, less what a file cannot do."""
    state = server.ask("GET", "/api/state").data
    state |= {"may_write": False, "can": [], "subjects": [], "compare": None}
    state["texts"] = [] if text is None else [{"id": "file", "title": text[:24] + ("…" if len(text) > 24 else ""), "text": text}]
    return _record("GET", "/api/state", Reply(200, "application/json", json.dumps(state).encode()))


def _session() -> tuple[str, dict[str, Any]]:
    return _record("POST", "/api/sessions", Reply(201, "application/json", b'{"session": "file"}'))


def _plain(server: Inside, paths: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Answers as they are, refusals too."""
    return (_record("GET", path, server.ask("GET", path)) for path in paths)


def _record(method: str, path: str, reply: Reply) -> tuple[str, dict[str, Any]]:
    packed = base64.b64encode(gzip.compress(reply.body, 9, mtime=0)).decode()
    return f"{method} {path}", {"status": reply.status, "type": reply.type, "gzip": packed}
