"""What tells whether a file was written to since; read without torch or transformers."""

from collections.abc import Mapping
from pathlib import Path

Stamp = tuple[int, int, int, int]  # size, time of the last write in ns, of the last change at all (which nothing can set back), inode


def stamps(folder: Path) -> Mapping[str, Stamp]:
    """Every file in a folder and its subfolders, by its path inside.

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
