"""The files that a model was opened from, with their state at that time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers.utils.hub import cached_file

from headwise.storage.file_stamps import Stamp, stamps


@dataclass(frozen=True)
class Origin:
    """The folder of a checkpoint.

    Attributes:
        files: the stamp of every file in it, by relative path, when the model was opened.
    """

    folder: Path
    files: Mapping[str, Stamp]

    def changed(self) -> list[str]:
        """The files that were modified, added or removed since."""
        now = stamps(self.folder)
        return sorted(name for name in {*now, *self.files} if now.get(name) != self.files.get(name))


def origin_of(where: str) -> Origin | None:
    """The files of a folder, or the cached ones of a hub id; None if there are none."""
    folder = Path(where)
    if not folder.is_dir():
        try:
            found = cached_file(where, "config.json", local_files_only=True)
        except (OSError, ValueError):
            return None
        if found is None:
            return None
        folder = Path(found).parent
    return Origin(folder, stamps(folder))
