"""File stamps, by which changes are detected without reading a file; imports neither torch nor transformers."""

from collections.abc import Mapping
from pathlib import Path

Stamp = tuple[int, int, int, int]  # size, time of the last write in ns, of the last change at all (which nothing can set back), inode


def stamps(folder: Path) -> Mapping[str, Stamp]:
    """The stamp of every file in a folder and its subfolders, by relative path.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "a.txt").write_text("four")
        >>> {name: stamp[0] for name, stamp in stamps(folder).items()}
        {'a.txt': 4}
    """
    found: dict[str, Stamp] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            found[str(path.relative_to(folder))] = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    return found
