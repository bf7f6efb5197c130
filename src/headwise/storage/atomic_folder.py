"""Write a folder completely or not at all, without ever losing a file that this program did not write.

    1  the new folder is written next to its destination and flushed to disk
    2  files of the old folder that are not replaced are hard-linked into the new one: the same files, not copies
    3  the two folders are exchanged in one step
    4  in the old folder, now next to the destination, the names that were replaced or linked are removed, and nothing else

`kill -9` before step 3 leaves the old state, after it the new one. Files of others are at the destination at every moment.
"""

import ctypes
import errno
import filecmp
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from headwise.errors import ArgumentError, ModelError
from headwise.storage.staging import attempts, is_own, staged, sync

HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
FULL = (errno.ENOSPC, errno.EDQUOT)
NAMED = 3  # files that an error lists
ASIDE = "-old"


@dataclass(frozen=True)
class Replacing:
    """Which files of an existing folder may be replaced. Names are paths inside it, with "/".

    Attributes:
        ours: given a folder and a name, whether this program wrote that file and it is unchanged: it may be replaced or removed.
        part: whether a file of this name belongs to what is replaced, whoever wrote it: it may be replaced by a new file of the same name.
        misread: whether a file of this name, left among the new ones, would be read as one of them: then nothing is written.
        in_one_step: whether to refuse on file systems that cannot exchange two folders atomically, instead of renaming twice.
    """

    ours: Callable[[Path, str], bool]
    part: Callable[[str], bool]
    misread: Callable[[str], bool]
    in_one_step: bool = True


@contextmanager
def atomic_folder(folder: Path, replacing: Replacing | None = None, size: int = 0) -> Iterator[Path]:
    """An empty folder to fill; it becomes `folder` once everything in it is on disk.

    Args:
        folder: the destination; a link to a folder is followed.
        replacing: what may be replaced there; None if the destination must be new or an empty folder.
        size: approximate number of bytes that will be written.

    Raises:
        ArgumentError: the destination is a file, or a folder with files that would have to be deleted; the message names them.
        ModelError: the disk is full, or the destination cannot be written. Nothing was changed.

    Example:
        >>> from tempfile import mkdtemp
        >>> place = Path(mkdtemp()) / "model"
        >>> with atomic_folder(place) as part:
        ...     _ = (part / "config.json").write_text("{}")
        >>> [path.name for path in place.parent.iterdir()], [path.name for path in place.iterdir()]
        (['model'], ['config.json'])
    """
    folder = folder.expanduser().resolve()
    check_replaceable(folder, replacing)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear_replaced(folder, replacing)
        if size > shutil.disk_usage(folder.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with staged(folder, folder=True) as part:
            yield part
            sync(part)
            if replacing is None or not folder.exists() or not any(folder.iterdir()):
                part.rename(folder)
            else:
                _replace(part, folder, replacing)
            sync(folder.parent, deep=False)
    except (OSError, SafetensorError) as error:  # safetensors has an error of its own for a full disk
        raise _explained(folder, size, error) from None


def check_replaceable(folder: Path, replacing: Replacing | None, new: Mapping[str, Path] | None = None) -> None:
    """Check that a folder can be written here without losing a file that this program did not write.

    Args:
        new: the files that will be written, by relative path, each with an existing file of the same content, if there is one.

    Raises:
        ArgumentError: it cannot; the message names the files.
    """
    if folder.is_file():
        raise ArgumentError(f"a folder is needed to save to, and {str(folder)!r} is a file. Choose another name.")
    if replacing is None and folder.is_dir() and any(folder.iterdir()):
        raise ArgumentError(f"the folder to save to must be new or empty, got {str(folder)!r}. Choose another, or say overwrite=True.")
    if new is not None and replacing is not None:
        _check_conflicts(folder, _plan(folder, new, replacing))


@dataclass(frozen=True)
class _Plan:
    """What happens to each file of the old folder: replaced or removed, linked into the new one, or a reason to refuse."""

    gone: Mapping[str, os.stat_result]
    stays: Mapping[str, os.stat_result]
    replaced: tuple[str, ...]
    misread: tuple[str, ...]


def _plan(old: Path, new: Mapping[str, Path], replacing: Replacing) -> _Plan:
    gone: dict[str, os.stat_result] = {}
    stays: dict[str, os.stat_result] = {}
    replaced, misread = [], []
    folders = {parent.as_posix() for name in new for parent in Path(name).parents}
    for name, state in _files(old).items():
        if name in new and (replacing.part(name) or not _same(old / name, new[name])):
            gone[name] = state
            if not (replacing.part(name) or replacing.ours(old, name)):
                replaced.append(name)
        elif name not in new and replacing.ours(old, name):
            gone[name] = state
        else:
            stays[name] = state
            if name in folders or any(parent.as_posix() in new for parent in Path(name).parents):
                replaced.append(name)
            elif name not in new and replacing.misread(name):
                misread.append(name)
    return _Plan(gone, stays, tuple(replaced), tuple(misread))


def _check_conflicts(folder: Path, plan: _Plan) -> None:
    if plan.replaced:
        raise ArgumentError(
            f"saving to {str(folder)!r} would replace {_listed(plan.replaced)}, which headwise did not write. Move that away, or choose another folder."
        )
    if plan.misread:
        raise ArgumentError(
            f"{str(folder)!r} holds {_listed(plan.misread)}, which headwise did not write and which would be read together with what is saved. "
            "Move that away, or choose another folder."
        )


def _replace(part: Path, folder: Path, replacing: Replacing) -> None:
    plan = _plan(folder, {name: part / name for name in _files(part)}, replacing)
    _check_conflicts(folder, plan)
    one_step = _can_exchange(part) if not replacing.in_one_step else _check_exchange(part)
    _link(folder, part, plan)
    if _identities(_files(folder)) != _identities({**plan.gone, **plan.stays}):
        raise OSError(errno.EBUSY, "somebody wrote to this folder meanwhile")
    old = _exchanged(part, folder, one_step)
    sync(folder.parent, deep=False)
    left = _dispose(old, lambda name, state: _is(plan.gone.get(name), state) or _is(plan.stays.get(name), state))
    if left:
        warnings.warn(f"{_listed(left)} was written to {str(folder)!r} during the save and is now in {str(old)!r}.", stacklevel=4)


def _link(old: Path, new: Path, plan: _Plan) -> None:
    """Link the files that stay into the new folder, and recreate their folders and empty ones with the same permissions and dates."""
    needed = {parent.as_posix() for name in plan.stays for parent in Path(name).parents}
    for base, _, _ in os.walk(old):
        name = Path(base).relative_to(old).as_posix()
        if name in needed or not _files(Path(base)):
            (new / name).mkdir(parents=True, exist_ok=True)
    for name in plan.stays:
        if os.path.lexists(new / name):
            (new / name).unlink()  # the same content: the old file stays, with its date
        os.link(old / name, new / name, follow_symlinks=False)
    for base, _, _ in os.walk(new, topdown=False):
        source, target = old / Path(base).relative_to(new), Path(base)
        if source.is_dir():
            shutil.copystat(source, target)
            with suppress(PermissionError):  # only root can give a folder to its owner
                os.chown(target, source.stat().st_uid, source.stat().st_gid)
        sync(target, deep=False)


def _check_exchange(part: Path) -> bool:
    """Try an exchange on two empty folders before anything is touched.

    Raises:
        OSError: the file system does not support it.
    """
    one, other = part / ".one", part / ".other"
    one.mkdir()
    other.mkdir()
    try:
        _exchange(one, other)
    finally:
        one.rmdir()
        other.rmdir()
    return True


def _can_exchange(part: Path) -> bool:
    try:
        return _check_exchange(part)
    except OSError:
        return False


def _exchanged(new: Path, old: Path, in_one_step: bool) -> Path:
    """Exchange two folders; the path where the old one is afterwards."""
    if in_one_step:
        _exchange(new, old)
        return new
    aside = new.with_name(f"{new.name}{ASIDE}")
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    return aside


def _exchange(new: Path, old: Path) -> None:
    """Exchange two folders atomically."""
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, "this system cannot exchange two folders in one step")
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2") or libc.renameat2(HERE, os.fsencode(new), HERE, os.fsencode(old), EXCHANGE):
        raise OSError(ctypes.get_errno() or errno.ENOTSUP, "this file system cannot exchange two folders in one step")


def _clear_replaced(folder: Path, replacing: Replacing | None) -> None:
    """Remove old folders left by a save that was killed after the exchange, if all their files were linked into the new one or replaced by it."""
    for old in attempts(folder):
        if is_own(old) or old.is_symlink() or not old.is_dir():
            continue
        if not folder.exists() and old.name.endswith(ASIDE):
            old.rename(folder)  # killed between the two renames
        elif replacing is not None and folder.is_dir():
            now = _files(folder)
            if all(_is(now.get(name), state) or replacing.ours(old, name) or (name in now and replacing.part(name)) for name, state in _files(old).items()):
                _dispose(old, lambda name, state: True)


def _dispose(folder: Path, may_go: Callable[[str, os.stat_result], bool]) -> list[str]:
    """Remove some files of a folder, and folders that are empty then; the files that remain."""
    for name, state in _files(folder).items():
        if may_go(name, state):
            (folder / name).unlink(missing_ok=True)
    for base, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):  # it is not empty
            Path(base).rmdir()
    return sorted(_files(folder))


def _files(folder: Path) -> dict[str, os.stat_result]:
    """Every file and link in a folder and its subfolders, by relative path; links to folders are not followed."""
    found = {}
    for base, folders, files in os.walk(folder, onerror=_raise):
        for name in [*files, *(name for name in folders if Path(base, name).is_symlink())]:
            path = Path(base, name)
            found[path.relative_to(folder).as_posix()] = path.lstat()
    return found


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _same(one: Path, other: Path) -> bool:
    plain = one.is_file() and other.is_file() and not one.is_symlink() and not other.is_symlink()
    return plain and (one.samefile(other) or filecmp.cmp(one, other, shallow=False))


def _is(known: os.stat_result | None, state: os.stat_result) -> bool:
    return known is not None and (known.st_dev, known.st_ino) == (state.st_dev, state.st_ino)


def _identities(files: Mapping[str, os.stat_result]) -> dict[str, tuple[int, ...]]:
    """What changes when a file is modified or replaced. A new hard link changes only the ctime, which is therefore left out."""
    return {name: (state.st_ino, state.st_size, state.st_mtime_ns) for name, state in files.items()}


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _explained(folder: Path, size: int, error: OSError | SafetensorError) -> ModelError:
    if isinstance(error, OSError) and error.errno in FULL:
        room = f"room for {size / 1e6:.0f} MB" if size else "room"
        return ModelError(f"the disk must have {room}, got a full one at {str(folder.parent)!r}. Nothing was changed; make room.")
    reason = getattr(error, "strerror", None) or error
    return ModelError(f"the folder to save to must be writable, got {reason} for {str(folder)!r}. Nothing was changed; choose another.")
