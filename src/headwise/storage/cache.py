"""One cache for everything stored between processes: results as JSON files, and folders that are expensive to make.

It lies in the system's cache folder of the user, or in `HEADWISE_CACHE`. Each entry records its kind and format, the complete key, and a fingerprint of its
content. An entry that does not match in any of these, or cannot be read, is a miss.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path
from safetensors import SafetensorError

from headwise.errors import ModelError
from headwise.storage.atomic_write import write_atomically
from headwise.storage.fingerprint import Key, fingerprint, fingerprint_file
from headwise.storage.staging import staged, sync

ABOUT, CONTENTS = "about.json", "contents"  # of a folder: its key with a fingerprint of each file, and the files
UNUSED = 30 * 24 * 3600  # seconds
DIGITS = 20  # of a key's fingerprint that stand in a name


def cache_folder() -> Path:
    """The folder of cached data: `HEADWISE_CACHE`, or the system's cache folder for this user."""
    chosen = os.environ.get("HEADWISE_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("headwise")


@dataclass(frozen=True)
class Entry:
    """A stored result.

    Attributes:
        key: the fingerprint of each ingredient that it depends on.
        value: JSON data.
    """

    key: Key
    value: Any


@dataclass(frozen=True)
class Cache:
    """The entries of one kind.

    Attributes:
        kind: the name of its subfolder.
        format: incremented when the meaning of stored data changes; entries of another format are misses.

    Example:
        >>> from tempfile import mkdtemp
        >>> os.environ["HEADWISE_CACHE"] = mkdtemp()
        >>> cache = Cache("examples", format=1)
        >>> cache.write("sum", {"numbers": "9f"}, 5)
        >>> cache.read("sum", {"numbers": "9f"}), cache.read("sum", {"numbers": "a0"})
        (5, None)
        >>> del os.environ["HEADWISE_CACHE"]
    """

    kind: str
    format: int

    def read(self, name: str, key: Mapping[str, str]) -> Any:
        """The value stored under this name and key, or None."""
        found = self.entry(name)
        return found.value if found is not None and found.key == dict(key) else None

    def entry(self, name: str) -> Entry | None:
        """The entry stored under a name, whatever its key; None if there is none, or it is damaged or of another kind or format."""
        try:
            stored = json.loads(self.path(name).read_text(encoding="utf-8"))
            content = stored["content"]
            about, key, value = json.loads(content)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Entry(key, value) if stored.get("fingerprint") == fingerprint(content) and about == self._about() else None

    def write(self, name: str, key: Mapping[str, str], value: Any) -> None:
        """Store a value, replacing the entry of this name.

        Raises:
            ModelError: the cache cannot be written.
        """
        content = json.dumps([self._about(), dict(key), value])
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"fingerprint": fingerprint(content), "content": content}))
        except OSError as error:
            raise _unwritable(path, error) from None

    def forget(self, name: str) -> None:
        """Remove the entry of a name, if there is one."""
        self.path(name).unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """The file of a name."""
        return cache_folder() / self.kind / f"{name}.json"

    def folder(self, name: str, key: Mapping[str, str], make: Callable[[Path], None]) -> Path:
        """The folder of this name and key, made on first use; other processes wait meanwhile.

        Making one removes folders of the same name with other keys that have not been used for a month.

        Args:
            make: fills an empty folder.

        Raises:
            ModelError: the cache cannot be written.
        """
        place = cache_folder() / self.kind / f"{name}-{fingerprint(dict(key))[:DIGITS]}"
        if not self._is_whole(place, key):
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(place.with_name(f"{place.name}.lock")):
                    if not self._is_whole(place, key):
                        self._make(place, key, make)
                        self._remove_unused(name)
            except (OSError, SafetensorError) as error:  # safetensors has an error of its own for a full disk
                raise _unwritable(place, error) from None
        with suppress(OSError):  # a cache that can only be read
            os.utime(place / ABOUT)
        return place / CONTENTS

    def _make(self, place: Path, key: Mapping[str, str], make: Callable[[Path], None]) -> None:
        with staged(place, folder=True) as part:
            contents = part / CONTENTS
            contents.mkdir()
            make(contents)
            files = {path.relative_to(contents).as_posix(): fingerprint_file(path) for path in sorted(contents.rglob("*")) if path.is_file()}
            write_atomically(part / ABOUT, json.dumps({"about": self._about(), "key": dict(key), "files": files}, indent=1))
            sync(part)
            if place.exists():  # damaged: it makes room
                with staged(place, folder=True) as aside:
                    place.rename(aside / place.name)
            part.rename(place)

    def _is_whole(self, place: Path, key: Mapping[str, str]) -> bool:
        try:
            stored = json.loads((place / ABOUT).read_text(encoding="utf-8"))
            matches = stored["about"] == self._about() and stored["key"] == dict(key)
            return matches and all(fingerprint_file(place / CONTENTS / file) == known for file, known in stored["files"].items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def _remove_unused(self, name: str) -> None:
        for path in (cache_folder() / self.kind).glob(f"{name}-{'[0-9a-f]' * DIGITS}"):
            about = path / ABOUT
            if about.is_file() and time.time() - about.stat().st_mtime > UNUSED:
                with staged(path, folder=True) as aside:
                    path.rename(aside / path.name)

    def _about(self) -> list[Any]:
        return ["headwise", self.kind, self.format]


def _unwritable(path: Path, error: Exception) -> ModelError:
    reason = getattr(error, "strerror", None) or error
    return ModelError(f"the cache must be writable, got {reason} for {str(path)!r}. Set HEADWISE_CACHE to another folder.")
