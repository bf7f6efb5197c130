"""How far a check has come, once it has taken two seconds and somebody looks on."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
Progress = Callable[[str], object]


@contextmanager
def progress(name: str, steps: int = 40) -> Iterator[Progress]:
    """A bar on standard error; it is told what is being done, step by step.

    Args:
        name: of what is checked.
        steps: that there will be, about.
    """
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("checking {task.fields[name]}"), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}")
    bar = Bar(*columns, console=Console(stderr=True, file=sys.__stderr__), transient=True)
    task = bar.add_task("", total=steps, name=name)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.start()
    try:
        yield lambda doing: bar.update(task, advance=1, description=doing[:60])
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
