"""The description of a command: a function whose signature typer reads, and examples that a test runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, errors included.")]


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        run: the function; returns the exit code, None for 0. Its docstring is the help.
        examples: command lines, each with a description.
        renamed: options of earlier releases, each with the one that replaces it; they still work for one release, with a warning.
    """

    run: Callable[..., int | None]
    examples: Mapping[str, str]
    renamed: Mapping[str, str] = field(default_factory=dict)
