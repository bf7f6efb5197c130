"""Lists of edits as JSON: in a file of their own, or in the headwise.json of a saved checkpoint."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import headwise
from headwise.catalog import entries
from headwise.errors import ArgumentError, HeadwiseError
from headwise.interventions.edit import Edit, EditKind
from headwise.storage.atomic_write import write_atomically

RENAMED = {"blind": "mask_keys", "silence": "ablate", "temper": "temperature", "tie": "tie_heads"}  # kinds in files of earlier releases


def edit_kinds() -> Mapping[str, EditKind]:
    """Every kind of edit, by name.

    Example:
        >>> sorted(edit_kinds())
        ['ablate', 'mask_keys', 'prune', 'scale', 'temperature', 'tie_heads']
    """
    return entries("headwise.interventions.edits")


def edits_to_json(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """Edits as JSON objects.

    Example:
        >>> from headwise.interventions.edits.scale import Scale
        >>> edits_to_json([Scale(2, 1, 1.5)])
        [{'edit': 'scale', 'layer': 2, 'head': 1, 'factor': 1.5}]
    """
    return [{"edit": one.kind, **{name: x for name, x in asdict(one).items() if x is not None}} for one in edits]  # pyright: ignore[reportArgumentType]


def write_edits(edits: Sequence[Edit], path: str | Path, model: str = "") -> None:
    """Write a list of edits to a file, for `read_edits`.

    Args:
        model: the name of the model they were made for; only recorded.

    Raises:
        ArgumentError: the file cannot be written.
    """
    text = json.dumps({"headwise": headwise.__version__, "model": model, "edits": edits_to_json(edits)}, indent=2) + "\n"
    try:
        write_atomically(Path(path), text)
    except OSError as error:
        raise ArgumentError(f"Cannot write the edits to {str(path)!r}: {error.strerror}. Choose another place.") from None


def read_edits(path: str | Path) -> list[Edit]:
    """The edits of a file that `write_edits` wrote, or of the headwise.json of a saved checkpoint.

    Raises:
        ArgumentError: the file cannot be read, or is not such a file.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise ArgumentError(f"Cannot read edits from {str(path)!r}: {reason}. Check the path.") from None
    listed = found.get("edits") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not listed:
        raise ArgumentError(f"{str(path)!r} lists no edits under 'edits'. Write such a file with `headwise edit --list FILE`.")
    return [_edit(x, f"edit {number} of {str(path)!r}") for number, x in enumerate(listed)]


def _edit(x: object, where: str) -> Edit:
    known = edit_kinds()
    kind = str(x.get("edit")) if isinstance(x, dict) else ""
    kind = RENAMED.get(kind, kind)
    if not isinstance(x, dict) or kind not in known:
        raise ArgumentError(f"{where} must be one of {', '.join(known)}, got {x.get('edit') if isinstance(x, dict) else x!r}. Correct it.")
    try:
        return known[kind].make(**{name: value for name, value in x.items() if name != "edit"})
    except (TypeError, HeadwiseError) as error:
        raise ArgumentError(f"{where} has wrong arguments, got {x}: {error}") from None
