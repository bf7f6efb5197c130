"""`python -m benchmarks NAME [--json FILE] [--quick]`: measure one claim, or `all` of them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.pairs import Report
from headwise.catalog import entries

CONSOLE = Console()
if not CONSOLE.is_terminal:
    CONSOLE = Console(width=200)  # a file has no width of its own: cases stay on one line


def main(
    name: Annotated[str, typer.Argument(help="Which benchmark: " + ", ".join(entries("benchmarks")) + ", or all.")],
    file: Annotated[Path | None, typer.Option("--json", help="Also write the figures here, as JSON.")] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes only: to see that it runs.")] = False,
    only: Annotated[str, typer.Option(help="families: these model types, between commas.")] = "",
    again: Annotated[bool, typer.Option("--again", help="families: judge anew what an earlier sweep found.")] = False,
) -> None:
    """Ours and the peer interleaved in one process; ratios are medians of pairs, below 1 where ours is faster."""
    known = entries("benchmarks")
    if name != "all" and name not in known:
        raise typer.BadParameter(f"NAME must be one of {sorted(known)} or all, got {name!r}.")
    if (only or again) and name != "families":
        raise typer.BadParameter(f"--only and --again are for families, got {name!r}.")
    chosen = {"only": only, "again": again} if name == "families" else {}
    reports = [known[one](quick, **chosen) for one in ([one for one in known if one != "families"] if name == "all" else [name])]
    for report in reports:
        _show(report)
    if file is not None:
        file.write_text(json.dumps([report.to_json() for report in reports] if name == "all" else reports[0].to_json(), indent=2) + "\n")


def _show(report: Report) -> None:
    table = Table(title=f"{report.name} on {report.machine['cpu']}, {report.machine['cores']} cores, torch {report.machine['torch']}")
    for column in ("case", "peer", "ours", "theirs", "ratio", "spread", "ratio of processor time", "goal"):
        table.add_column(column, justify="left" if column in ("case", "peer") else "right")
    for pair in report.pairs:
        goal = "" if pair.goal is None else f"{pair.goal:.2f} {'reached' if pair.reached else 'missed'}"
        table.add_row(
            pair.case,
            pair.peer,
            f"{pair.ours_s:.3f} s",
            f"{pair.peer_s:.3f} s",
            f"{pair.ratio:.2f}",
            f"{pair.lowest:.2f}-{pair.highest:.2f}",
            f"{pair.busy_ratio:.2f}",
            goal,
        )
    CONSOLE.print(table)
    for name, number in report.numbers.items():
        CONSOLE.print(f"  {name}: {number:,.4g}")
    if not report.machine["quiet"]:
        CONSOLE.print(f"  [yellow]The machine was not quiet (others used {report.machine['others']:.0%} of the cores): repeat before quoting these.[/yellow]")


if __name__ == "__main__":
    typer.run(main)
