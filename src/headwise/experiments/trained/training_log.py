"""Which trainings are done: a line each in a file, so that a sweep that was stopped goes on."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.errors import ArgumentError


class State:
    """What is done.

    Args:
        path: of the file; made when it is not there. None: nothing is remembered.
        about: what the work is; a file of other work is refused.

    Raises:
        ArgumentError: the file is of other work, or cannot be read or written.
    """

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self.path, self.done = path, dict[str, Any]()
        if path is None:
            return
        header = json.dumps(dict(about), sort_keys=True)
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
            if len(lines) > 1 and lines[0] != header:
                raise ArgumentError(f"state must be of the same sweep, got {str(path)!r}, which is of another. Choose another file.")
            whole = lines[1:-1]  # what follows the last line break was cut off
            for line in whole:
                name, found = _entry(path, line)
                self.done[name] = found
            path.write_text("".join(f"{line}\n" for line in (header, *whole)), encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"state must name a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None

    def add(self, name: str, found: Any) -> None:
        """Remember a training, safe from a kill."""
        self.done[name] = found
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, found]) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _entry(path: Path, line: str) -> tuple[str, Any]:
    try:
        name, found = json.loads(line)
        return str(name), found
    except (ValueError, TypeError):
        raise ArgumentError(f"state must hold one training a line, got {line[:40]!r} in {str(path)!r}. Delete the file to begin anew.") from None
