"""Files that must lie inside a folder: what a checkpoint names may neither lead out of it nor be a pipe or a device, which would block whoever opens it."""

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from headwise.errors import CheckpointError

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def contained_file(folder: Path, name: object) -> Path:
    """The path of a regular file inside a folder, from its name there. Nothing is opened.

    A link may point to a file elsewhere in the folder. In the cache of huggingface_hub, where `snapshots/<revision>/<name>` is a link to `blobs/<hash>` of the
    same repository, it may point to such a blob. A name without a file is returned as it is: whoever opens it finds it missing.

    Raises:
        CheckpointError: the name is absolute, goes up, or is a link that leads out of the folder; or there is a pipe, a socket, a device or a folder.

    Example:
        >>> contained_file(Path("model"), "model.safetensors").as_posix()
        'model/model.safetensors'
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise CheckpointError(f"A checkpoint must name its files by text, got {name!r} in {str(folder)!r}. Fetch the model again.")
    paths = PurePosixPath(name), PureWindowsPath(name)
    if any(path.is_absolute() or path.drive or path.root or ".." in path.parts for path in paths):
        raise CheckpointError(
            f"A checkpoint names the file {name!r}, which lies outside its folder {str(folder)!r}. "
            "Fetch the model again, or copy that file into the folder if you trust it."
        )
    path = folder / name
    try:
        target = Path(os.path.realpath(path, strict=False))
        mode = path.stat().st_mode
    except FileNotFoundError:
        target, mode = Path(os.path.realpath(path)), stat.S_IFREG
    except OSError as error:  # a link to itself, a name that is too long, a folder that may not be read
        raise CheckpointError(f"The file {name!r} of {str(folder)!r} cannot be read: {error.strerror}. Fetch the model again.") from None
    if not _is_inside(target, Path(os.path.realpath(folder))):
        raise CheckpointError(
            f"{name} in {str(folder)!r} is a link that leads out of the folder, to {str(target)!r}. Copy that file into the folder if you trust it."
        )
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "of another kind")
        raise CheckpointError(f"{name} in {str(folder)!r} must be a regular file, got {kind}, which is not opened. Fetch the model again.")
    return path


def leads_out(folder: Path, name: str) -> bool:
    """Whether a file of a folder is a link to something outside it, other than the hub cache's own."""
    return not _is_inside(Path(os.path.realpath(folder / name)), Path(os.path.realpath(folder)))


def _is_inside(target: Path, folder: Path) -> bool:
    """Whether a path, with all links followed, is in the folder, or is a blob of the repository in the hub's cache that the folder is a snapshot of."""
    return target.is_relative_to(folder) or (folder.parent.name == "snapshots" and target.parent == folder.parent.parent / "blobs")
