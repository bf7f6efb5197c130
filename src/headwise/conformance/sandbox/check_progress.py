"""A progress bar of a check, once it has taken two seconds on a terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwise.progress import ProgressCallback, no_progress

DELAY = 2.0  # seconds before the bar appears
WIDTH = 60  # characters of a stage that are shown


@contextmanager
def progress_bar(name: str) -> Iterator[ProgressCallback]:
    """A bar on standard error, to be called with each stage; nothing where standard error is no terminal.

    Args:
        name: the name of what is checked.
    """
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("checking {task.fields[name]}"), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}")
    bar = Progress(*columns, console=Console(stderr=True, file=sys.__stderr__), transient=True)
    task = bar.add_task("", total=None, name=name)
    timer = threading.Timer(DELAY, bar.start)
    timer.start()
    try:
        yield lambda stage, done, total: bar.update(task, completed=done, total=total, description=stage[:WIDTH])
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
