"""The one signature of progress callbacks, used wherever work takes longer than a moment."""

from collections.abc import Callable
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[str, int, int | None], None]
"""Called as `progress(stage, done, total)`: the stage in words, the steps done in it, and how many there are (None if unknown)."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore progress: the default callback.

    Example:
        >>> no_progress("ablating heads", 3, 72)
    """
