"""What was written: the record that lies in the folder as headwise.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = "headwise.json"


@dataclass(frozen=True, repr=False)
class Saved:
    """A checkpoint that was written.

    Attributes:
        changed: the tensors that differ from the source's.
        kept: those whose bytes are the source's.
        left_out: files of the source, and folders ending in "/", that were not copied, such as weights in other formats; `record["left_out"]` says why.
        record: what headwise.json says.
        others: files at the place, written by somebody else, that an overwriting save left as they are.
    """

    folder: Path
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    record: Mapping[str, Any]
    others: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Saved({str(self.folder)!r}: {len(self.changed)} tensors changed, {len(self.kept)} kept)"
