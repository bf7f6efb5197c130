"""`headwise check`: is this attention right, and if not, on which smallest input is it wrong?"""

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
    arg: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="An argument with which a class or a peer is made; may be given again.")] = None,
    level: Annotated[str, typer.Option(help="quick, or full: more problems, more drawn at random.")] = "full",
    convention: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What the subject means, such as corner=top-left; the rest is probed. May be given again.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this dtype, such as bfloat16; every one that the subject takes when absent.")] = None,
    device: Annotated[str | None, typer.Option(help="Where tensors are to lie, such as cuda.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one call may take.")] = TIMEOUT,
    shrinking: Annotated[
        float | None, typer.Option(help="Seconds that all failures together may be made smaller; 10 at quick and 60 at full when absent.")
    ] = None,
    stop_at_first: Annotated[bool, typer.Option("--stop-at-first", help="End at the first result that is wrong: only whether there is a fault.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page to this file.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the report as JUnit XML to this file.")] = None,
    json: Json = False,
) -> int:
    """Try to prove the attention of SUBJECT wrong, and show the smallest input on which it is.

    The subject runs in a process of its own, so that it may hang or die. What it means by its words (the corner of the causal triangle, True in a mask, a row
    that sees no key) is found out and printed, and is no failure. Exit code 1 when something is wrong or fragile.
    """
    import sys

    from headwise.cli.output import print_json
    from headwise.conformance.check import check as run

    for path in (html, junit):
        _can_be_written(path)
    if "" not in sys.path:
        sys.path.insert(0, "")  # the subject may be a module of the folder one stands in
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
        _tell(report)
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
    """Said before the check, which takes its time."""
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


def _tell(report: "Report") -> None:
    """Print the report, its verdict in colour; lines are never broken, so that a test can be copied."""
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
        "headwise check headwise:attend --level quick": "our own, as any other",
        "headwise check torch.nn:MultiheadAttention --arg embed_dim=16 --arg num_heads=4 --level quick": "a module, made with these arguments",
        "headwise check torch_sdpa --level quick --json": "a peer by name, for a program to read",
    },
)
