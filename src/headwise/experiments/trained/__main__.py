"""`python -m headwise.experiments.trained NAME`: train what a claim stands on again, and write the file that its card is made from."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headwise.errors import ArgumentError, HeadwiseError
from headwise.experiments.trained import more_heads, repeats, two_patterns
from headwise.experiments.trained.stored_results import path_of, write

SWEEPS: dict[str, Callable[..., dict[str, Any]]] = {"more_heads": more_heads.sweep, "two_patterns": two_patterns.sweep, "repeats": repeats.sweep}


def make(
    name: Annotated[str, typer.Argument(help=f"What to train: {', '.join(SWEEPS)}.")],
    state: Annotated[Path | None, typer.Option(help="A file that remembers the trainings that are done: the same call goes on after it was stopped.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the results; in the place of those that the card is made from when absent.")] = None,
) -> None:
    """Train the models of an experiment on one thread, and write what came out."""
    import torch

    if name not in SWEEPS:
        raise ArgumentError(f"name must be one of {', '.join(SWEEPS)}, got {name!r}. Correct the name.")
    torch.set_num_threads(1)
    columns = TextColumn(name), BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("")
        found = SWEEPS[name](state, progress=lambda doing, done, total: progress.update(task, description=doing, completed=done, total=total))
    write(out or path_of(name), found)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line; 2 when the call is wrong."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(make)
    try:
        return app(sys.argv[1:] if words is None else list(words), prog_name="python -m headwise.experiments.trained", standalone_mode=False) or 0
    except HeadwiseError as error:
        Console(file=sys.stderr, highlight=False, soft_wrap=True).print(f"error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
