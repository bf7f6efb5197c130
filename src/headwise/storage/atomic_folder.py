"""A folder written whole or not at all: beside its place, onto the disk, then moved there in one step."""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from headwise.errors import ArgumentError, ModelError

HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def whole_folder(folder: Path, overwrite: bool, size: int) -> Iterator[Path]:
    """An empty folder to fill; it takes its place when all is written and on the disk.

    Whatever happens before that (an error, a full disk, kill -9) leaves the place as it was. A killed attempt leaves a folder
    `.NAME.part-…` beside it, which the next one clears away.

    Args:
        overwrite: exchange a checkpoint that is there for the new one.
        size: bytes that will be written, about.

    Raises:
        ArgumentError: there is something at that place, and overwriting is not asked for or is no checkpoint.
        ModelError: the disk is full, or the place cannot be written.
    """
    folder = folder.expanduser().resolve()
    _check_place(folder, overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        free = shutil.disk_usage(folder.parent).free
        if size > free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = Path(mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    except OSError as error:
        raise _refused(folder, size, error) from None
    held = _hold(part)
    try:
        yield part
        part.chmod(0o755)
        _onto_disk(part)
        if folder.exists() and any(folder.iterdir()):
            _exchange(part, folder)
        else:
            part.rename(folder)
        _onto_disk(folder.parent, deep=False)
    except OSError as error:
        raise _refused(folder, size, error) from None
    finally:
        os.close(held)
        shutil.rmtree(part, ignore_errors=True)  # what is left of a failed attempt, or the old folder after the exchange


def _check_place(folder: Path, overwrite: bool) -> None:
    if folder.is_file():
        raise ArgumentError(f"a model must be saved to a folder, got the file {str(folder)!r}. Choose another name.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise ArgumentError(f"the folder to save to must be new or empty, got {str(folder)!r}. Choose another, or say overwrite=True.")
    if not (folder / "config.json").is_file():
        raise ArgumentError(f"what is overwritten must be a checkpoint, got {str(folder)!r} without config.json. Choose another folder.")


def _refused(folder: Path, size: int, error: OSError) -> ModelError:
    if error.errno in FULL:
        return ModelError(f"the disk must have room for {size / 1e6:.0f} MB, got a full one at {str(folder.parent)!r}. Nothing was changed; make room.")
    return ModelError(f"the folder to save to must be writable, got {error.strerror or error} for {str(folder)!r}. Nothing was changed; choose another.")


def _clear(folder: Path) -> None:
    """Take away what killed attempts left; one that is still at work holds its lock."""
    for left in folder.parent.glob(f".{folder.name}.part-*"):
        try:
            os.close(_hold(left))
        except BlockingIOError:
            continue
        shutil.rmtree(left, ignore_errors=True)


def _hold(part: Path) -> int:
    """A lock on the folder, gone when this process is."""
    import fcntl

    held = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise
    return held


def _onto_disk(folder: Path, deep: bool = True) -> None:
    """Wait until files and folders are on the disk, innermost first."""
    for path in [*(sorted(folder.rglob("*"), reverse=True) if deep else ()), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(new: Path, old: Path) -> None:
    """Let two folders change places, in one step: there is no moment at which neither is there."""
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, "this system cannot exchange two folders in one step")
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2") or libc.renameat2(HERE, os.fsencode(new), HERE, os.fsencode(old), EXCHANGE):
        raise OSError(ctypes.get_errno() or errno.ENOTSUP, "this file system cannot exchange two folders in one step")
