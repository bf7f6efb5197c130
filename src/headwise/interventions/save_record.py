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
        left_out: files of the source that were not copied: weights in other formats, which hold what was edited.
        record: what headwise.json says.
    """

    folder: Path
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    record: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Saved({str(self.folder)!r}: {len(self.changed)} tensors changed, {len(self.kept)} kept)"
