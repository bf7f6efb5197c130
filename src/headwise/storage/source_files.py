"""The files that a model was opened from, as they were then."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers.utils.hub import cached_file

from headwise.storage.file_stamps import Stamp, stamps


@dataclass(frozen=True)
class Origin:
    """A folder with a checkpoint.

    Attributes:
        files: every file in it, by its path inside: what tells whether it was written to since.
    """

    folder: Path
    files: Mapping[str, Stamp]

    def changed(self) -> list[str]:
        """The files that are not as they were, new ones and missing ones among them."""
        now = stamps(self.folder)
        return sorted(name for name in {*now, *self.files} if now.get(name) != self.files.get(name))


def origin_of(where: str) -> Origin | None:
    """The folder, or the cached files of a hub id; None where there are none."""
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
