"""Output of commands: results on standard output, progress and errors on standard error."""

import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from headwise.progress import ProgressCallback, no_progress

PATIENCE = 2.0  # seconds before a wait is worth a word


def show(*parts: RenderableType) -> None:
    """Print tables and text, with colours if the terminal supports them."""
    console = Console(file=sys.stdout, highlight=False)
    for part in parts:
        console.print(part)


def terminal_width() -> int:
    """The width of the terminal in characters."""
    return Console(file=sys.stdout).width


def print_json(data: Any) -> None:
    """Print data as JSON, in ASCII, with NaN and infinity as null."""
    sys.stdout.write(json.dumps(_plain(data), indent=2) + "\n")


def print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    line = Text.assemble(("error: ", "bold red"), " ".join(message.split()))
    Console(file=sys.stderr, highlight=False, soft_wrap=True).print(line)


def print_warning(message: str) -> None:
    """Print a warning as one line on standard error."""
    Console(file=sys.stderr, highlight=False, soft_wrap=True).print(Text.assemble(("warning: ", "bold yellow"), message))


@contextmanager
def waiting(for_what: str) -> Iterator[None]:
    """Show what is being waited for and for how long, after two seconds; only in a terminal.

    Args:
        for_what: "opening demo:smollm2"
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(for_what)
    timer = threading.Timer(PATIENCE, progress.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


@contextmanager
def counting(what: str) -> Iterator[ProgressCallback]:
    """A progress bar with the time left, shown after two seconds and only in a terminal; yields the callback that advances it.

    Args:
        what: "ranking the heads of demo:smollm2"
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield no_progress
        return
    columns = (
        TextColumn(what),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} {task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=None)
    timer = threading.Timer(PATIENCE, progress.start)
    timer.start()
    try:
        yield lambda stage, done, total: progress.update(task, description=stage, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


def _plain(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return data
