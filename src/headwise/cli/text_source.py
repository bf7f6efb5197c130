"""Text arguments: the text itself, `@file`, or `-` for standard input."""

import sys
from pathlib import Path

from headwise.errors import ArgumentError


def read_text(word: str) -> str:
    """The text given by an argument.

    Example:
        >>> read_text("The cat sat.")
        'The cat sat.'
    """
    if word == "-":
        return _decoded("standard input", sys.stdin.buffer.read())
    if not word.startswith("@"):
        return word
    try:
        return _decoded(word[1:], Path(word[1:]).read_bytes())
    except OSError as error:
        raise ArgumentError(f"text must name a file that can be read after @, got {word!r} ({error.strerror}). Check the path.") from None


def _decoded(source: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ArgumentError(f"text must be UTF-8, got an invalid byte at position {error.start} of {source}. Convert it first.") from None
