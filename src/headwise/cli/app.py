"""The program `headwise`: finds the commands, and reports errors in one line, or as JSON with --json; --debug shows the traceback."""

import inspect
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from headwise import __version__
from headwise.catalog import entries
from headwise.cli.command import Command
from headwise.cli.output import print_error, print_json, print_warning
from headwise.errors import HeadwiseError

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    0: success; 1: a check failed; 2: the call is wrong; 70: headwise itself failed. `--debug`, anywhere on the line, raises an error with its traceback.

    Example:
        >>> main(["--version"])
        headwise 0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--debug" in words:
        return _run([word for word in words if word != "--debug"])
    try:
        return _run(words)
    except HeadwiseError as error:
        return _refuse(str(error), type(error).__name__, words)
    except typer.TyperException as error:
        return _refuse(_usage(error), "UsageError", words)
    except typer.Abort:
        return 130
    except Exception as error:  # noqa: BLE001 - a bug of headwise, reported as such
        _refuse(f"headwise failed with {type(error).__name__}: {error}. Add --debug for the traceback, and please report it.", "InternalError", words)
        return INTERNAL_ERROR


def _run(words: Sequence[str]) -> int:
    return build()(_with_new_options(words) or ["--help"], prog_name="headwise", standalone_mode=False) or 0


def build() -> typer.Typer:
    """The program, with every command of this folder."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback()(_program)
    for name, entry in entries("headwise.cli").items():
        app.command(name, help=_help(entry))(entry.run)
    return app


def _with_new_options(words: Sequence[str]) -> list[str]:
    """The arguments with options of earlier releases replaced by their current names, with a warning for each."""
    entry = entries("headwise.cli").get(next((word for word in words if not word.startswith("-")), ""))
    found = []
    for word in words:
        option, equals, value = word.partition("=")
        new = None if entry is None else entry.renamed.get(option)
        if new is not None:
            print_warning(f"{option} is deprecated and will be removed in the next release. Use {new}.")
        found.append(word if new is None else f"{new}{equals}{value}")
    return found


def _say_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"headwise {__version__}")
        raise typer.Exit
    return asked


def _program(version: Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")] = False) -> None:
    """Exact numbers for every head of a transformer, checked against the model's own output."""


def _help(entry: Command) -> str:
    examples = "\n".join(f"  {line}\n      {shows}" for line, shows in entry.examples.items())
    return f"{inspect.getdoc(entry.run)}\n\n\b\nExamples:\n{examples}"


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    program = context.command_path if context is not None else "headwise"
    message = error.format_message()
    return f"{message if message.endswith(('.', '?')) else message + '.'} `{program} --help` lists the commands and options."


def _refuse(message: str, kind: str, words: Sequence[str]) -> int:
    if "--json" in words:
        print_json({"error": {"kind": kind, "message": message}})
    else:
        print_error(message)
    return 2
