"""What surrounds a call of foreign code: prints captured, text made printable, the default dtype compared and restored."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import torch


class ProcessSettings:
    """The settings of the process that a call might change."""

    def __init__(self) -> None:
        self.dtype = torch.get_default_dtype()

    def changed(self) -> str:
        """What has changed since, in words; "" where nothing has."""
        now = torch.get_default_dtype()
        return "" if now == self.dtype else f"{now} as its default dtype, which was {self.dtype}"

    def restore(self) -> None:
        """Undo the changes."""
        torch.set_default_dtype(self.dtype)


@contextmanager
def captured_output() -> Iterator[io.StringIO]:
    """Everything that is printed inside, on standard output and standard error."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        yield text


def printable(text: str) -> str:
    r"""Text that every page, file and terminal can hold: a character that cannot be printed is replaced by its escape.

    Example:
        >>> printable("\x1b[31mred") == r"\x1b[31mred"
        True
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
