"""Files that are there whole, or not at all."""

from pathlib import Path
from secrets import token_hex


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file: beside its place, then renamed into it, so that a full disk or a broken process leaves what was there before.

    What is no ordinary file, such as `/dev/stdout`, is written as it is.

    Args:
        data: text is written as UTF-8.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "told.txt"
        >>> write_whole(path, "whole")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('whole', ['told.txt'])
    """
    given = data.encode() if isinstance(data, str) else data
    if path.exists() and not path.is_file():
        path.write_bytes(given)
        return
    place = path.resolve()  # a link stays a link
    part = place.with_name(f".{token_hex(6)}.part")
    try:
        part.write_bytes(given)
        part.replace(place)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
