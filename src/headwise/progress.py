"""The one signature of progress callbacks, used wherever work takes longer than a moment."""

from collections.abc import Callable
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[str, int, int | None], None]
"""Called as `progress(stage, done, total)`: the stage in words, the steps done in it, and how many there are (None if unknown)."""


def without_stage(report: Callable[[int, int | None], None]) -> ProgressCallback:
    """A progress callback from one that takes only the steps done and the total, as callbacks of earlier releases did.

    Example:
        >>> without_stage(lambda done, total: print(done, total))("ranking heads", 3, 72)
        3 72
    """
    return lambda _, done, total: report(done, total)


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore progress: the default callback.

    Example:
        >>> no_progress("ablating heads", 3, 72)
    """
