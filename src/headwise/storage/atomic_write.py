"""Write a file completely or not at all."""

from pathlib import Path

from headwise.storage.staging import staged, sync


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write a file next to its destination, flush it to disk and rename it, so that a full disk or a killed process leaves the old file.

    A symbolic link is followed, and a replaced file keeps its permissions. Devices and pipes such as `/dev/stdout` are written to directly.

    Args:
        data: text is written as UTF-8.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "results.txt"
        >>> write_atomically(path, "all of it")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('all of it', ['results.txt'])
    """
    content = data.encode() if isinstance(data, str) else data
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    place = path.resolve()
    with staged(place, folder=False) as part:
        if place.exists():
            part.chmod(place.stat().st_mode)
        part.write_bytes(content)
        sync(part)
        part.replace(place)
