"""A run on disk: a directory with `run.json`, `numbers.safetensors`, and one file for each attention call.

Written beside its place and moved there when complete, so that no half of a run is ever found; `run.json` has a fingerprint
of every other file. Masks that are code are saved as what they evaluate to: the first and last key of each row, and a tensor
only where rows do not see intervals.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from headwise.attention.call import Call, Tiled
from headwise.attention.mask import LazyMask, VisibleKeys, visible_keys
from headwise.axes import Interval, Tensor
from headwise.errors import ArgumentError, CheckpointError, ModelError, WritesRefused
from headwise.models.layout import Layout
from headwise.models.run import Run
from headwise.models.runs.activation_store import StoredCall
from headwise.models.runs.places import Place
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.runs.statistics_collector import CallStatistics
from headwise.models.verification.proof import Proof
from headwise.storage.atomic_folder import Replacing, atomic_folder
from headwise.storage.fingerprint import fingerprint_file
from headwise.verdict import Verdict, Verdicts

FORMAT = 1
NUMBERS = "numbers.safetensors"


def save_run(run: Run, path: Path) -> None:
    """Write a run to a new directory, or in place of an older run; files of somebody else beside an older run stay as they are.

    Raises:
        ArgumentError: there is something else at that path.
        ModelError: it cannot be written.
    """
    if path.exists() and not (path / "run.json").is_file():
        raise ArgumentError(f"path must be new or hold an older run, got {str(path)!r}, which holds something else. Choose another.")
    if not path.parent.is_dir():
        raise ModelError(f"path must be in a directory that exists, got {str(path)!r}. Create that first, or choose another.")
    with atomic_folder(path, Replacing(_is_ours, _is_of_run, _never, in_one_step=False)) as part:
        _write(run, part)


def _is_ours(folder: Path, name: str) -> bool:
    """Whether a file is listed by the run of its folder, and is as it was written; a run of an earlier version lists none."""
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))["files"].get(name) == fingerprint_file(folder / name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_of_run(name: str) -> bool:
    return re.fullmatch(r"run\.json|numbers\.safetensors|call-\d{5}\.safetensors", name) is not None


def _never(name: str) -> bool:
    """No file that lies beside a run is taken for part of it: only those that it lists are read."""
    return False


def load_run(path: str | Path) -> Run:
    """A run that was saved: everything but `outputs`, without its model.

    Raises:
        CheckpointError: there is no complete run.
    """
    path = Path(path)
    try:
        content = json.loads((path / "run.json").read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise CheckpointError(f"a run must be of format {FORMAT}, got {content['format']} in {str(path)!r}. Save it again with this version.")
        _check_content(path, content, NUMBERS)
        return SavedRun(path, content, load_file(path / NUMBERS))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"path must be a directory that run.save wrote, got {str(path)!r} ({type(error).__name__}). Save the run again.") from None


class SavedRun(Run):
    """A run read from disk."""

    def __init__(self, path: Path, content: dict[str, Any], numbers: dict[str, Tensor]) -> None:
        places = tuple(Place(**place) for place in content["places"])
        found = {place.index: _numbers(place, content["statistics"], numbers) for place in places}
        padding = {place.part: numbers.get(f"padding.{place.part}") for place in places}
        metadata = RunMetadata(places, Layout(()), found, content["tokens"], content["decoder_tokens"], padding, tuple(content["notes"]))
        super().__init__(metadata, store=None, forward_pass=None, outputs=None)
        self._path, self._content, self._tensors = path, content, numbers

    @property
    def outputs(self) -> dict[str, Tensor]:
        raise ModelError("outputs must be read before a run is saved, got a run from disk, which holds none. Run the model again.")

    @property
    def proof(self) -> Proof:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._content["proof"] is None:
            raise ModelError("proof must be asked for before a run is saved, got a run from disk, whose model is not at hand. Run it again, prove, then save.")
        verdicts, *layers = (Verdicts(map(Verdict.from_json, each)) for each in self._content["proof"])
        return Proof(verdicts, tuple(layers))

    def _written(self, part: str) -> list[dict[str, Tensor]]:
        refusal = self._content["refusals"].get(part)
        if refusal is not None:
            raise WritesRefused(refusal)
        places = [place for place in self._metadata.places if place.part == part]
        return [{name: self._tensors[f"{place.index}.writes.{name}"] for name in ("norm", "share", "cosine")} for place in places]

    def _each(self, indices: Sequence[int], use: Callable[[int, StoredCall], None]) -> None:
        for index in indices:
            try:
                _check_content(self._path, self._content, _file(index))
                call = _kept(load_file(self._path / _file(index)), self._content["calls"][str(index)], self._metadata.numbers[index])
            except (OSError, SafetensorError, KeyError) as error:
                raise CheckpointError(f"{_file(index)} must be whole, got {type(error).__name__} in {str(self._path)!r}. Save the run again.") from None
            use(index, call)


class IntervalMask(LazyMask):
    """A mask that is known by the first and last key of each row, and by a tensor where rows do not see intervals."""

    def __init__(self, first: Interval, stop: Interval, mask: Tensor | None) -> None:
        self.visible = VisibleKeys(first, stop, mask)

    def tile(self, rows: slice, keys: slice) -> Tensor:
        return self.visible.tile(rows, keys)

    def intervals(self) -> VisibleKeys:
        return self.visible


def _check_content(folder: Path, content: dict[str, Any], name: str) -> None:
    """Whether a file is the one that was saved with this run: not damaged since, nor of another run that was saved in its place.

    Raises:
        CheckpointError: it is not.
        OSError: it cannot be read.
    """
    known = content.get("files", {}).get(name)  # a run of an earlier version has none
    if known is not None and fingerprint_file(folder / name) != known:
        raise CheckpointError(f"{name} must be as it was saved, got other content in {str(folder)!r}. Save the run again.")


def _write(run: Run, folder: Path) -> None:
    metadata = run._metadata
    numbers: dict[str, Tensor] = {}
    calls: dict[int, dict[str, Any]] = {}
    for index, number in metadata.numbers.items():
        numbers |= {f"{index}.{name}": x for name, x in number.statistics.items()}
        numbers[f"{index}.lse"] = number.lse
    numbers |= {f"padding.{part}": x for part, x in metadata.padding.items() if x is not None}
    refusals = _write_writes(run, numbers)

    def put(index: int, call: StoredCall) -> None:
        calls[index] = {"scale": call.call.scale, "softcap": call.call.softcap}
        save_file(_contiguous(_tensors(call)), folder / _file(index))

    run._each([place.index for place in metadata.places], put)
    save_file(_contiguous(numbers), folder / NUMBERS)
    content = {
        "format": FORMAT,
        "places": [asdict(place) for place in metadata.places],
        "statistics": list(next(iter(metadata.numbers.values())).statistics),
        "tokens": [list(row) for row in metadata.tokens],
        "decoder_tokens": metadata.decoder_tokens,
        "notes": list(metadata.notes),
        "calls": calls,
        "refusals": refusals,
        "proof": [[verdict.to_json() for verdict in each.values()] for each in (run.proof.verdicts, *run.proof.layers)] if _is_proved(run) else None,
    }
    content["files"] = {path.name: fingerprint_file(path) for path in sorted(folder.iterdir())}
    (folder / "run.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _write_writes(run: Run, numbers: dict[str, Tensor]) -> dict[str, str]:
    """Add the writes of heads to the numbers; by part, the reason where they cannot be attributed to heads."""
    refusals = {}
    for part in dict.fromkeys(place.part for place in run._metadata.places):
        try:
            found = run._written(part)
        except WritesRefused as refusal:
            refusals[part] = str(refusal)
            continue
        places = [place for place in run._metadata.places if place.part == part]
        numbers |= {f"{place.index}.writes.{name}": x for place, call in zip(places, found, strict=True) for name, x in call.items()}
    return refusals


def _is_proved(run: Run) -> bool:
    return "proof" in vars(run) or (isinstance(run, SavedRun) and run._content["proof"] is not None)


def _tensors(kept: StoredCall) -> dict[str, Tensor]:
    queries, keys = kept.query.shape[2], kept.key.shape[2]
    seen = visible_keys(kept.call, queries, keys)
    found = {
        "query": kept.query,
        "key": kept.key,
        "offset": kept.call.offset,
        "first": seen.first,
        "stop": seen.stop,
        "mask": _whole(seen.mask, queries, keys),
        "bias": _whole(kept.call.bias, queries, keys),
        "sink": kept.call.sink,
        "read": kept.z,
        "padding": kept.padding,
    }
    return {name: x for name, x in found.items() if x is not None}


def _kept(tensors: dict[str, Tensor], content: dict[str, Any], numbers: CallStatistics) -> StoredCall:
    mask = IntervalMask(tensors["first"], tensors["stop"], tensors.get("mask"))
    call = Call(content["scale"], tensors["offset"], mask=mask, bias=tensors.get("bias"), softcap=content["softcap"], sink=tensors.get("sink"))
    return StoredCall(tensors["query"], tensors["key"], numbers.lse, call, tensors.get("read"), tensors.get("padding"))


def _numbers(place: Place, names: Sequence[str], tensors: dict[str, Tensor]) -> CallStatistics:
    shape = (place.batch, place.heads, place.key_heads, place.queries, place.keys)
    return CallStatistics(shape, {name: tensors[f"{place.index}.{name}"] for name in names}, tensors[f"{place.index}.lse"], None, ())


def _whole(plane: Tensor | Tiled | None, queries: int, keys: int) -> Tensor | None:
    return plane if plane is None or isinstance(plane, Tensor) else plane.tile(slice(0, queries), slice(0, keys))


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """As safetensors wants them: on the CPU, none sharing memory with another."""
    return {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}


def _file(index: int) -> str:
    return f"call-{index:05}.safetensors"
