"""The page as one file that needs no server: the front end, and every response that it will request."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.errors import ModelError
from headwise.server.app import frontend_folder
from headwise.server.embedded.in_process import InProcessServer, Reply
from headwise.server.payloads.tensor_payload import from_safetensors, to_safetensors
from headwise.server.state.app_state import ServerSettings
from headwise.server.state.run_cache import CachedRun
from headwise.storage.atomic_write import write_atomically

if TYPE_CHECKING:
    from headwise.models.run import Run

MAX_PIXELS = 700_000  # of all maps of a file together
MAX_WEIGHTS = 300_000  # exact weights in a file, where a text is that short
FRACTION_BITS = 12  # of a per-token number: relative rounding 1e-4
STATISTICS = ("entropy", "max_weight", "peak", "distance", "first", "previous", "self", "sink", "write_share")  # recorded for each token

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
    """The page of a run as HTML.

    Raises:
        ModelError: the run has no model.
    """
    if run.model is None:
        raise ModelError("This run was loaded without its model, which the page needs. Open the model and run the text again.")
    server = InProcessServer(ServerSettings([run.model], "file"))
    try:
        return page("model", dict(_run_responses(server, run)))
    finally:
        server.close()


def moves_page() -> str:
    """The page of the five moves as HTML."""
    server = InProcessServer(ServerSettings([], "file"))
    try:
        return page("moves;h=2", dict([_state(server), _session(), *_record_as_is(server, ["/api/moves"])]))
    finally:
        server.close()


def page(address: str, responses: Responses) -> str:
    """The front end with the responses it will request.

    Raises:
        ModelError: the front end's files are missing.
    """
    folder = frontend_folder()
    try:
        style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("bundle.css", "bundle.js"))
    except OSError as error:
        raise ModelError(f"The page's bundle is missing: {error.strerror} in {str(folder)!r}. Install headwise again.") from None
    recorded = json.dumps({"address": address, "responses": responses}, separators=(",", ":")).replace("<", "\\u003c")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>headwise</title>'
    body = f'<div data-headwise-page></div><script type="application/json" id="headwise-recorded">{recorded}</script>'
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    style = style.replace("</style", "<\\/style")
    inside = f'<body class="headwise-page">{body}<script type="module">{script}</script></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{style}</style></head>{inside}</html>\n'


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        ModelError: it cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ModelError(f"Cannot write {str(path)!r} ({error.strerror}). Choose another path.") from None


def _run_responses(server: InProcessServer, run: "Run") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every response about one run."""
    from headwise.server.embedded.notebook_widget import text_of
    from headwise.server.payloads.text_run import run_facts

    text = text_of(run)
    (model,) = server.state.models.by_id
    facts = {"model": model, "id": "file", **run_facts(run.model, run, text)}  # pyright: ignore[reportArgumentType]
    cached = CachedRun("file", model, text, run, facts, {"file"})
    server.state.runs.runs[cached.id] = cached
    for part in facts["parts"]:
        part["recorded_level"] = _level(facts["parts"], part["top_level"])
    yield _state(server, text)
    yield _session()
    reply = Reply(200, "application/json", json.dumps(facts).encode())
    yield _record("POST", "/api/runs", reply)
    yield _record("GET", "/api/runs/file", reply)
    yield from _record_as_is(server, ["/api/runs/file/proof"])
    for number, part in enumerate(facts["parts"]):
        yield from _part_responses(server, part, "" if number == 0 else f"part={part['name']}")


def _part_responses(server: InProcessServer, part: dict[str, Any], query: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Grid, writes, thumbnails, and every head: its per-token numbers, its map at one level, its weights where they are few."""
    ending = f"?{query}" if query else ""
    yield from _record_as_is(server, [f"/api/runs/file/{name}{ending}" for name in ("grid", "writes", "thumbnails")])
    heads = [(layer, head) for layer, count in enumerate(part["heads_of"]) for head in range(count)]
    few = len(heads) * part["queries"] * part["keys"] <= MAX_WEIGHTS
    for layer, head in heads:
        path = f"/api/runs/file/heads/{layer}/{head}{ending}"
        yield _record("GET", path, _shortened(server.request("GET", path)))
        if few:
            yield from _record_as_is(server, [f"/api/runs/file/weights/{layer}/{head}{ending}"])
        path = f"/api/runs/file/tiles/{layer}/{head}/{part['recorded_level']}/0/0{ending}"
        yield _record("GET", path, _encoded(server.request("GET", path)))


def _level(parts: list[dict[str, Any]], top: int) -> int:
    """The finest level at which the maps of all heads have no more pixels than a file may hold; one tile for each map."""
    heads = sum(sum(part["heads_of"]) for part in parts)
    return max(level for level in range(min(top, 8) + 1) if heads * 4**level <= MAX_PIXELS or level <= 4)


def _shortened(reply: Reply) -> Reply:
    """Per-token numbers rounded to fewer digits, which compress better."""
    found = from_safetensors(reply.body)
    arrays = {name: _rounded(x) if x.dtype.kind == "f" else x for name, x in found.pop("arrays").items() if name in STATISTICS}
    return Reply(reply.status, reply.type, to_safetensors(arrays, found))


def _rounded(x: np.ndarray) -> np.ndarray:
    """The same floats with a shorter fraction, whose remaining bits are 0."""
    spare = 23 - FRACTION_BITS
    bits = (x.astype(np.float32).view(np.uint32).astype(np.uint64) + (1 << (spare - 1))) & ~np.uint64((1 << spare) - 1)
    return np.where(np.isfinite(x), bits.astype(np.uint32).view(np.float32), x)


def _encoded(reply: Reply) -> Reply:
    """A tile in 8 bits."""
    import torch

    from headwise.server.payloads.weight_maps import encode

    found = from_safetensors(reply.body)
    tile = encode(torch.from_numpy(found.pop("arrays")["tile"].astype(np.float32)))
    return Reply(reply.status, reply.type, to_safetensors({"tile": tile}, {**found, "encoding": "sqrt8"}))


def _state(server: InProcessServer, text: str | None = None) -> tuple[str, dict[str, Any]]:
    """The server's state, without what a file cannot do."""
    state = server.request("GET", "/api/state").data
    state |= {"may_write": False, "can": [], "subjects": [], "compare": None}
    state["texts"] = [] if text is None else [{"id": "file", "title": text[:24] + ("…" if len(text) > 24 else ""), "text": text}]
    return _record("GET", "/api/state", Reply(200, "application/json", json.dumps(state).encode()))


def _session() -> tuple[str, dict[str, Any]]:
    return _record("POST", "/api/sessions", Reply(201, "application/json", b'{"session": "file"}'))


def _record_as_is(server: InProcessServer, paths: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Responses as they are, refusals included."""
    return (_record("GET", path, server.request("GET", path)) for path in paths)


def _record(method: str, path: str, reply: Reply) -> tuple[str, dict[str, Any]]:
    packed = base64.b64encode(gzip.compress(reply.body, 9, mtime=0)).decode()
    return f"{method} {path}", {"status": reply.status, "type": reply.type, "gzip": packed}
