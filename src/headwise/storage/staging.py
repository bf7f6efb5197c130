"""Staging: a file or folder is written next to its destination, under a name that identifies its writer, and then renamed.

    .NAME.part-INODE-RANDOM

INODE is that of the staged file or folder itself. After `kill -9`, one that carries its own inode and that nobody has locked was abandoned by this program,
and the next write to the same destination removes it. Anything else with such a name is not ours and is never touched.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

LONGEST = 80  # characters of NAME that are used, as file names have a maximal length
STARTING = 60.0  # seconds within which a new file is locked


@contextmanager
def staged(place: Path, *, folder: bool) -> Iterator[Path]:
    """An empty file or folder next to its destination. The caller renames it; if it is still there at the end, it is removed.

    Raises:
        OSError: it cannot be created.
    """
    clear_dead(place)
    part, lock = _made(place, folder)
    try:
        yield part
    finally:
        if is_own(part):
            _remove(part)
        _unlock(lock)


def clear_dead(place: Path) -> None:
    """Remove what was abandoned by processes that were killed while staging for this destination."""
    for part in attempts(place):
        if not is_own(part):
            continue
        try:
            lock = _locked(part)
        except OSError:  # another process is writing, or has just finished
            continue
        _remove(part)
        _unlock(lock)


def attempts(place: Path) -> list[Path]:
    """Everything next to a destination that has a staging name, whoever made it."""
    try:
        with os.scandir(place.parent) as found:
            return sorted(place.parent / entry.name for entry in found if entry.name.startswith(_prefix(place)))
    except FileNotFoundError:
        return []


def is_own(part: Path) -> bool:
    """Whether this was staged under its name: not the old folder that was exchanged for it, nor a user's file with such a name.

    One whose writer was killed before it had its inode in the name is empty, and counts once it is too old to be in use.
    """
    try:
        state = part.lstat()
    except FileNotFoundError:
        return False
    number = part.name.rpartition(".part-")[2].partition("-")[0]
    if number != "new":
        return number == str(state.st_ino)
    empty = state.st_size == 0 if not part.is_dir() else not any(part.iterdir())
    return empty and not part.is_symlink() and time.time() - state.st_ctime > STARTING


def sync(path: Path, *, deep: bool = True) -> None:
    """Flush files and folders to disk, innermost first. Symbolic links are part of their folder and need no flush."""
    inner = sorted(path.rglob("*"), reverse=True) if deep and path.is_dir() else ()
    for one in [*inner, path]:
        if one.is_symlink() or not (one.is_file() or one.is_dir()):
            continue
        handle = os.open(one, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _made(place: Path, folder: bool) -> tuple[Path, int | None]:
    first = place.with_name(f"{_prefix(place)}new-{token_hex(6)}")
    if folder:
        first.mkdir(0o755)
    else:
        os.close(os.open(first, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    lock = _locked(first)
    part = place.with_name(f"{_prefix(place)}{first.lstat().st_ino}-{token_hex(6)}")
    first.rename(part)
    return part, lock


def _prefix(place: Path) -> str:
    return f".{place.name[:LONGEST]}.part-"


def _locked(part: Path) -> int | None:
    """Lock a file or folder for the life of this process; None on systems without such locks.

    Raises:
        OSError: another process holds the lock, or nothing has this name.
    """
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part, ignore_errors=True)
        return
    with suppress(OSError):
        part.unlink()
