"""A list of edits as a small file: what was done to one model, to be done again to another."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import headwise
from headwise.catalog import entries
from headwise.errors import ArgumentError, HeadwiseError
from headwise.interventions.edit import Edit, Kind
from headwise.storage.atomic_write import write_atomically

RENAMED = {"blind": "mask_keys", "silence": "ablate", "temper": "temperature", "tie": "tie_heads"}  # kinds in files of earlier releases


def kinds() -> Mapping[str, Kind]:
    """Every kind of edit, by name.

    Example:
        >>> sorted(kinds())
        ['ablate', 'mask_keys', 'prune', 'scale', 'temperature', 'tie_heads']
    """
    return entries("headwise.interventions.edits")


def plain(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """Edits as JSON holds them.

    Example:
        >>> from headwise.interventions.edits.scale import Scale
        >>> plain([Scale(2, 1, 1.5)])
        [{'edit': 'scale', 'layer': 2, 'head': 1, 'factor': 1.5}]
    """
    return [{"edit": one.kind, **{name: x for name, x in asdict(one).items() if x is not None}} for one in edits]  # pyright: ignore[reportArgumentType]


def write_edits(edits: Sequence[Edit], path: str | Path, model: str = "") -> None:
    """Write a list of edits to a file; `read_edits` reads it.

    Raises:
        ArgumentError: the file cannot be written.
    """
    told = json.dumps({"headwise": headwise.__version__, "model": model, "edits": plain(edits)}, indent=2) + "\n"
    try:
        write_atomically(Path(path), told)
    except OSError as error:
        raise ArgumentError(f"edits must go to a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None


def read_edits(path: str | Path) -> list[Edit]:
    """The edits of a file that `write_edits` wrote, or of the headwise.json in a saved checkpoint.

    Raises:
        ArgumentError: the file cannot be read, or says something else.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise ArgumentError(f"a file of edits must be one that headwise wrote, got {str(path)!r}: {said}. Check the path.") from None
    listed = found.get("edits") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not listed:
        raise ArgumentError(f"a file of edits must list some under 'edits', got none in {str(path)!r}. Write it with `headwise edit --list FILE`.")
    return [_one(x, f"edit {number} of {str(path)!r}") for number, x in enumerate(listed)]


def _one(x: Any, where: str) -> Edit:
    known = kinds()
    kind = str(x.get("edit")) if isinstance(x, dict) else ""
    kind = RENAMED.get(kind, kind)
    if kind not in known:
        raise ArgumentError(f"an edit must be one of {', '.join(known)}, got {x.get('edit') if isinstance(x, dict) else x!r} in {where}. Correct it.")
    try:
        return known[kind].make(**{name: value for name, value in x.items() if name != "edit"})
    except (TypeError, HeadwiseError) as error:
        raise ArgumentError(f"an edit must have the numbers of its kind, got {x} in {where}: {error}") from None
