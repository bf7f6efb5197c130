"""`headwise check`: test an attention implementation, and report the smallest failing inputs."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.command import Command, Json
from headwise.errors import ArgumentError
from headwise.storage.atomic_write import write_atomically

if TYPE_CHECKING:
    from headwise.conformance.report.report import Report

TIMEOUT = 30.0  # seconds that a call may take
EXAMPLES = {"arg": "num_heads=4", "convention": "corner=top-left"}


def check(
    subject: Annotated[str, typer.Argument(help="package.module:attribute of a function or an nn.Module, or a peer by name.", show_default=False)],
    arg: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="An argument for constructing a class or a peer; can be repeated.")] = None,
    level: Annotated[str, typer.Option(help="quick or full; full runs more cases, more of them random.")] = "full",
    convention: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A convention of the subject, such as corner=top-left; the others are probed. Can be repeated."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this dtype, such as bfloat16; every dtype that the subject accepts by default.")] = None,
    device: Annotated[str | None, typer.Option(help="The device of the tensors, such as cuda.")] = None,
    timeout: Annotated[float, typer.Option(help="Time limit of one call, in seconds.")] = TIMEOUT,
    shrinking: Annotated[float | None, typer.Option(help="Time limit for minimising all failures, in seconds; by default 10 at quick and 60 at full.")] = None,
    stop_at_first: Annotated[bool, typer.Option("--stop-at-first", help="Stop at the first failure: report only whether there is one.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page to this file.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the report as JUnit XML to this file.")] = None,
    json: Json = False,
) -> int:
    """Test the attention of SUBJECT, and report the smallest inputs on which it fails.

    The subject runs in a process of its own, so it may hang or crash. Its conventions (the corner of the causal mask, the meaning of True in a mask, rows
    without visible keys) are probed and printed; they are no failures. Exit code 1 if a check fails or is fragile.
    """
    import sys

    from headwise.cli.output import print_json
    from headwise.conformance.check import check as run

    for path in (html, junit):
        _can_be_written(path)
    if "" not in sys.path:
        sys.path.insert(0, "")  # the subject may be a module in the current directory
    report = run(
        subject,
        level=level,  # pyright: ignore[reportArgumentType]
        conventions=_pairs("convention", convention),
        dtype=_dtype(dtype),
        device=device,
        timeout=timeout,
        arguments=_pairs("arg", arg),
        shrinking=shrinking,
        stop_at_first=stop_at_first,
    )
    _write(html, report.to_html)
    _write(junit, report.to_junit)
    if json:
        print_json(report.to_plain())
    else:
        _print_report(report)
    return 0 if report.passed else 1


def _pairs(option: str, words: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, values read as Python where they are Python."""
    found = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentError(f"{option} must be NAME=VALUE, got {word!r}. Write for example {EXAMPLES[option]}.")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def _dtype(name: str | None) -> Any:
    import torch

    if name is None:
        return None
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ArgumentError(f"dtype must be float32, float64, bfloat16 or float16, got {name!r}. Choose one of them.")
    return found


def _can_be_written(path: Path | None) -> None:
    """Refuse a path that cannot be written before the check, which takes a while."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        wrong = "is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise ArgumentError(f"file must be one that can be written, got {str(path)!r} ({wrong}). Choose another path.")


def _write(path: Path | None, made: Callable[[], str]) -> None:
    if path is None:
        return
    try:
        write_atomically(path, made())
    except OSError as error:
        raise ArgumentError(f"file must be one that can be written, got {str(path)!r} ({error.strerror}). Choose another path.") from None


def _print_report(report: "Report") -> None:
    """Print the report with a coloured verdict; lines are not wrapped, so that the test can be copied."""
    import sys

    from rich.console import Console
    from rich.text import Text

    first, _, rest = str(report).partition("\n")
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    console.print(Text(first, style="bold green" if report.passed else "bold red"))
    console.print(Text(rest))


ENTRY = Command(
    check,
    examples={
        "headwise check headwise:attend --level quick": "headwise's own attention, like any other",
        "headwise check torch.nn:MultiheadAttention --arg embed_dim=16 --arg num_heads=4 --level quick": "a module, constructed with these arguments",
        "headwise check torch_sdpa --level quick --json": "a peer by name, as JSON",
    },
)
