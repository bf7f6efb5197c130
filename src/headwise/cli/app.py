"""`headwise`: finds the commands, and turns what goes wrong into one line and exit code 2."""

import inspect
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from headwise import __version__
from headwise.catalog import entries
from headwise.cli.command import Command
from headwise.cli.output import print_error, print_json
from headwise.errors import HeadwiseError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 well, 1 a check failed, 2 the call is wrong.

    Example:
        >>> main(["--version"])
        headwise 0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return build()(words, prog_name="headwise", standalone_mode=False) or 0
    except HeadwiseError as error:
        return _refuse(str(error), type(error).__name__, words)
    except typer.TyperException as error:
        return _refuse(f"{error.format_message()} `headwise --help` lists what there is.", "UsageError", words)
    except typer.Abort:
        return 130


def build() -> typer.Typer:
    """The program, with every command of this folder."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback(invoke_without_command=True)(_program)
    for name, entry in entries("headwise.cli").items():
        app.command(name, help=_help(entry))(entry.run)
    return app


def _program(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Exact numbers for every head of a transformer, checked against the model's own output."""
    if version:
        typer.echo(f"headwise {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _help(entry: Command) -> str:
    examples = "\n".join(f"  {line}\n      {shows}" for line, shows in entry.examples.items())
    return f"{inspect.getdoc(entry.run)}\n\n\b\nExamples:\n{examples}"


def _refuse(message: str, kind: str, words: Sequence[str]) -> int:
    if "--json" in words:
        print_json({"error": {"kind": kind, "message": message}})
    else:
        print_error(message)
    return 2
