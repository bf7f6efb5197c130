"""A file that remembers which parts of long work are done, so that work that was stopped goes on.

The first line has the key of the work, each further line one part: its name, its result and a fingerprint of the two. A line that a kill cut off is
dropped, and its part done again; a file of other work is refused, and so is one whose key was written by a version that did not know all ingredients.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.errors import ArgumentError
from headwise.storage.fingerprint import differences, fingerprint

FORMAT = 2


class ProgressFile:
    """The parts that are done, by name.

    Args:
        path: of the file; made when it is not there. None: nothing is remembered.
        key: what the work depends on, from `key_of`.
        work: what the work is called: "ranking".

    Attributes:
        done: the result of each part, plain data as JSON has it.

    Raises:
        ArgumentError: the file is of other work, is damaged, or cannot be read or written.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "state.jsonl"
        >>> ProgressFile(path, {"seed": "9f"}, "training").add("first", 0.5)
        >>> ProgressFile(path, {"seed": "9f"}, "training").done
        {'first': 0.5}
    """

    def __init__(self, path: Path | None, key: Mapping[str, str], work: str) -> None:
        self.path, self.done = path, dict[str, Any]()
        if path is None:
            return
        header = {"headwise": work, "format": FORMAT, "key": dict(key)}
        try:
            content = path.read_bytes() if path.exists() else b""
            lines = content.split(b"\n")[:-1]  # what follows the last line break was cut off
            if lines:
                _check_header(path, lines[0], header)
                self.done = dict(_part(path, line) for line in lines[1:])
                os.truncate(path, sum(len(line) + 1 for line in lines))
            else:
                _check_begun(path, content)
                path.write_bytes(json.dumps(header).encode() + b"\n")
        except OSError as error:
            raise ArgumentError(f"state must name a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None

    def add(self, name: str, result: Any) -> None:
        """Remember a part, safe from a kill."""
        self.done[name] = result
        if self.path is None:
            return
        with self.path.open("ab") as file:
            file.write(json.dumps([name, result, _fingerprint(name, result)]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _check_begun(path: Path, content: bytes) -> None:
    """A file without a whole line is empty, or one whose first line a kill cut off: never somebody's text."""
    begin = b'{"headwise": "'
    if not begin.startswith(content[: len(begin)]):
        raise ArgumentError(f"state must be a new file or one that headwise wrote, got {str(path)!r}, which holds something else. Choose another file.")


def _check_header(path: Path, line: bytes, header: Mapping[str, Any]) -> None:
    try:
        found = json.loads(line)
        known = found["key"]
        if found["headwise"] != header["headwise"] or found["format"] != FORMAT or not isinstance(known, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ArgumentError(
            f"state must be a file of this version's {header['headwise']}, got {str(path)!r}, which is something else or was written by an earlier version "
            "that did not record all that results depend on. Choose another file; the work starts anew."
        ) from None
    changed = differences(known, header["key"])
    if changed:
        raise ArgumentError(
            f"state must be of the same {header['headwise']}, got {str(path)!r}, which was written with other {', '.join(changed)}. Choose another file."
        )


def _part(path: Path, line: bytes) -> tuple[str, Any]:
    try:
        name, result, known = json.loads(line)
        if known != _fingerprint(name, result):
            raise ValueError
        return str(name), result
    except (ValueError, TypeError):
        raise ArgumentError(f"state must hold one part of the work a line, got {line[:40]!r} in {str(path)!r}. Delete the file to begin anew.") from None


def _fingerprint(name: str, result: Any) -> str:
    return fingerprint(json.dumps([name, result]))
