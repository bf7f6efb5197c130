"""Writing numbers as comma-separated values: `--csv`."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.errors import ArgumentError
from headwise.storage.atomic_write import write_atomically

Csv = Annotated[Path | None, typer.Option("--csv", help="Write the numbers to this file, comma-separated.")]


def check_csv(path: Path | None) -> None:
    """Refuse a path that cannot be written, before any computation starts.

    Raises:
        ArgumentError: its folder does not exist.
    """
    if path is not None and not path.parent.is_dir():
        raise ArgumentError(f"csv must name a file in a folder that exists, got {str(path)!r}. Make the folder first.")


def write_csv(path: Path | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the file, if one was requested; numbers with all digits.

    Raises:
        ArgumentError: it cannot be written.
    """
    if path is None:
        return
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    try:
        write_atomically(path, text.getvalue())
    except OSError as error:
        raise ArgumentError(f"csv must name a file that can be written, got {str(path)!r} ({error.strerror}). Choose another place.") from None
