"""Where a file or folder is made before it takes its place: beside it, under a name that shows who made it.

    .NAME.part-INODE-RANDOM

The number is the inode of what was made there. After `kill -9`, what carries its own number and is locked by nobody is a dead attempt of this program and
is cleared away by the next one; anything else of such a name is somebody else's, and stays.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

LONGEST = 80  # characters of the name that are taken over: names have an end
STARTING = 60.0  # seconds within which what is made is locked


@contextmanager
def staged(place: Path, *, folder: bool) -> Iterator[Path]:
    """An empty file or folder beside its place, for as long as it is not moved there; what is left of it at the end is removed.

    Raises:
        OSError: it cannot be made.
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
    """Remove what attempts left that were killed before they moved anything to this place."""
    for part in attempts(place):
        if not is_own(part):
            continue
        try:
            lock = _locked(part)
        except OSError:  # somebody is at work, or has just finished
            continue
        _remove(part)
        _unlock(lock)


def attempts(place: Path) -> list[Path]:
    """What stands beside a place under a name of this kind, whoever made it."""
    try:
        with os.scandir(place.parent) as found:
            return sorted(place.parent / entry.name for entry in found if entry.name.startswith(_prefix(place)))
    except FileNotFoundError:
        return []


def is_own(part: Path) -> bool:
    """Whether this is what was made under its name: not what took its place since, nor a file that somebody gave such a name.

    An attempt that was killed before it had its number is empty, and counts once nobody can be at work on it.
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
    """Wait until files and folders are on the disk, innermost first. Links are left alone: they are part of their folder."""
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
    """A lock that is gone when this process is; None where the system has none.

    Raises:
        OSError: another process holds it, or there is nothing of this name.
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
