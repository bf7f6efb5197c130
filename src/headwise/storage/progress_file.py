"""A file that records which parts of a long computation are done, so that it can be resumed.

The first line holds the key of the computation, each further line one part: its name, its result and a fingerprint of both. A line that was cut off by a
kill is dropped and its part computed again. A file with another key is refused, and so is one of an earlier version, whose key was incomplete.
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
    """Completed parts by name.

    Args:
        path: the file, created if missing; None to record nothing.
        key: what the computation depends on, from `key_of`.
        work: what the computation is called, such as "ranking".

    Attributes:
        done: the result of each part, plain data as JSON has it.

    Raises:
        ArgumentError: the file belongs to another computation, is damaged, or cannot be read or written.

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
            raise ArgumentError(f"The state file {str(path)!r} cannot be written ({error.strerror}). Choose another path.") from None

    def add(self, name: str, result: Any) -> None:
        """Record a completed part and wait until it is on the disk."""
        self.done[name] = result
        if self.path is None:
            return
        with self.path.open("ab") as file:
            file.write(json.dumps([name, result, _fingerprint(name, result)]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _check_begun(path: Path, content: bytes) -> None:
    """Check that a file without a complete line is empty or begins like a header that a kill cut off: a user's own text is never overwritten."""
    begin = b'{"headwise": "'
    if not begin.startswith(content[: len(begin)]):
        raise ArgumentError(f"The state file {str(path)!r} holds something that headwise did not write. Choose another file.")


def _check_header(path: Path, line: bytes, header: Mapping[str, Any]) -> None:
    try:
        found = json.loads(line)
        known = found["key"]
        if found["headwise"] != header["headwise"] or found["format"] != FORMAT or not isinstance(known, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ArgumentError(
            f"The state file {str(path)!r} is not one of this version's {header['headwise']}: it is something else, or was written by an earlier version "
            "that did not record everything results depend on. Choose another file to start anew."
        ) from None
    changed = differences(known, header["key"])
    if changed:
        raise ArgumentError(
            f"The state file {str(path)!r} belongs to another {header['headwise']}: {', '.join(changed)} changed since it was written. Choose another file."
        )


def _part(path: Path, line: bytes) -> tuple[str, Any]:
    try:
        name, result, known = json.loads(line)
        if known != _fingerprint(name, result):
            raise ValueError
        return str(name), result
    except (ValueError, TypeError):
        raise ArgumentError(f"The state file {str(path)!r} is damaged at {line[:40]!r}. Delete it to start anew.") from None


def _fingerprint(name: str, result: Any) -> str:
    return fingerprint(json.dumps([name, result]))
