"""The kill matrix in the terminal and as a page."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from headwise.conformance.kill_matrix import KillMatrix, Row

STYLES = {"●": "bold red", "○": "red", "!": "bold yellow reverse", "·": "dim", " ": ""}
KEY = "● detected, as required   ○ also detected   · not detected   ! missed, or a false alarm   (blank: does not apply)"


def matrix_lines(matrix: "KillMatrix") -> Iterator[RenderableType]:
    """Yield one line per mutation with a column per invariant, the key and the summary."""
    header = " ".join(f"{code:>3}" for code in matrix.codes.values())
    width = max(len(row_name(row)) for row in matrix.rows)
    yield Text(f"{'':{width}}  {header}", "bold", no_wrap=True)
    for row in matrix.rows:
        marks = (matrix.mark(row, name) for name in matrix.codes)
        cells = Text.assemble(*((f"{mark:>3} ", STYLES[mark]) for mark in marks))
        yield Text.assemble((f"{row_name(row):{width}}  ", "" if row.as_expected else "bold yellow"), cells, no_wrap=True)
    yield Text(KEY, "dim")
    yield verdict(matrix)


def row_lines(matrix: "KillMatrix") -> Iterator[RenderableType]:
    """Yield what each invariant reported first, for a few mutations."""
    for row in matrix.rows:
        yield Text.assemble((row_name(row), "bold"), f"  {row.description}")
        table = Table(box=None, pad_edge=False, show_header=False)
        for name in matrix.codes:
            if name in row.detected or name in row.required:
                mark = matrix.mark(row, name)
                table.add_row(Text(mark, STYLES[mark]), matrix.codes[name], name, row.detected.get(name, "did not detect it"))
        yield table
    yield verdict(matrix)


def verdict(matrix: "KillMatrix") -> Text:
    """Summarize the matrix in one line."""
    mutations = sum(bool(row.required) for row in matrix.rows)
    if matrix.complete:
        rest = len(matrix.rows) - mutations
        return Text(
            f"{mutations} of {mutations} mutations detected by every required invariant" + (f"; no false alarm on {rest} controls." if rest else "."),
            "bold green",
        )
    return Text("Missed, or a false alarm: " + "; ".join(row_name(row) for row in matrix.unexpected) + ".", "bold red")


def row_name(row: "Row") -> str:
    """Name of the mutation, with its variant if it has several."""
    return f"{row.mutation}: {row.variant}" if row.variant else row.mutation


def page(matrix: "KillMatrix") -> str:
    """Format the matrix in Markdown: the invariants, the table, and the mutations."""
    from headwise.catalog import entries
    from headwise.conformance.kill_matrix import UNMUTATED
    from headwise.conformance.mutations.mutation import mutations

    statements = {name: entry.statement for name, entry in entries("headwise.conformance.invariants").items()}
    reported_in = {name: entry.reported_in for name, entry in mutations().items()}
    lines = [
        "# Kill matrix",
        "",
        "Every mutation against every invariant. A mutation changes one step of headwise's own implementation into a known fault;",
        "an invariant sees results only, and compares them with each other or with an oracle that shares no code with the implementation.",
        "",
        f"{verdict(matrix).plain} The controls (harmless changes, and headwise unchanged) are at the end of the table.",
        "",
        "`headwise attack` recomputes the table, `headwise attack NAME` shows what each invariant reported.",
        "Generated from `src/headwise/conformance/` by `make docs`.",
        "",
        "## Invariants",
        "",
        "| code | invariant | statement |",
        "| --- | --- | --- |",
        *(f"| {code} | `{name}` | {statements[name]} |" for name, code in matrix.codes.items()),
        "",
        "## Mutations × invariants",
        "",
        KEY,
        "",
        "```text",
        *(line.plain.rstrip() for line in matrix_lines(matrix) if isinstance(line, Text) and line.plain != KEY and line.plain != verdict(matrix).plain),
        "```",
        "",
        "## Mutations",
        "",
        "| mutation | description | reported in |",
        "| --- | --- | --- |",
    ]
    known = {row.mutation: row for row in matrix.rows if row.mutation != UNMUTATED}
    lines += [f"| `{name}` | {row.description} | {', '.join(map(link, reported_in.get(name, ())))} |" for name, row in sorted(known.items())]
    return "\n".join(lines) + "\n"


def as_data(matrix: "KillMatrix") -> dict[str, Any]:
    """The matrix as data for the page: the invariants, and for each row whether it is a mutation, a control or headwise itself."""
    from headwise.catalog import entries

    statements = {name: entry.statement for name, entry in entries("headwise.conformance.invariants").items()}
    from headwise.conformance.kill_matrix import UNMUTATED

    return {
        "complete": matrix.complete,
        "invariants": [{"name": name, "code": code, "statement": statements[name]} for name, code in matrix.codes.items()],
        "rows": [
            {
                "attack": row.mutation,
                "told": row.variant,
                "code": row.code,
                "lie": row.description,
                "named": row.required,
                "asked": row.applied,
                "caught": dict(row.detected),
                "missed": row.missed,
                "alarms": row.false_alarms,
                "control": not row.required and row.mutation != UNMUTATED,
                "honest": row.mutation == UNMUTATED,
            }
            for row in matrix.rows
        ],
    }


def data_of_page(markdown: str) -> dict[str, Any]:
    """Read the data of `as_data` from the page that `page` wrote, without the first reports of the invariants."""
    from headwise.catalog import entries

    invariants, attacks = entries("headwise.conformance.invariants"), entries("headwise.conformance.mutations")
    names = re.findall(r"^\| \S+ \| `(\w+)` \|", markdown.split("## Invariants")[1].split("## Mutations")[0], re.MULTILINE)
    header, *lines = markdown.split("```text\n")[1].split("\n```")[0].splitlines()
    width = len(header) - len(header.lstrip()) - (3 - len(header.split()[0]))
    rows = []
    for line in lines:
        attack, _, told = line[:width].strip().partition(": ")
        marks = {name: line[width + 4 * n : width + 4 * n + 3].strip() for n, name in enumerate(names)}
        entry = attacks.get(attack)
        rows.append(_row_of(attack, told, marks, entry))
    told_invariants = [{"name": name, "code": invariants[name].code, "statement": invariants[name].statement} for name in names]
    return {"complete": not any(row["missed"] or row["alarms"] for row in rows), "invariants": told_invariants, "rows": rows}


def _row_of(attack: str, told: str, marks: dict[str, str], entry: Any) -> dict[str, Any]:
    named = () if entry is None else entry.detected_by
    caught = [name for name, mark in marks.items() if mark in ("●", "○") or (mark == "!" and name not in named)]
    honest = entry is None
    return {
        "attack": attack,
        "told": told,
        "code": getattr(entry, "code", ""),
        "lie": "headwise's own implementation, unmutated." if honest else entry.description,
        "named": list(named),
        "asked": [name for name, mark in marks.items() if mark],
        "caught": dict.fromkeys(caught, ""),
        "missed": [name for name in named if name not in caught],
        "alarms": [] if named else caught,
        "control": not honest and not named,
        "honest": honest,
    }


def link(thread: str) -> str:
    """Format owner/name#number as a link."""
    place, _, number = thread.partition("#")
    return f"[{thread}](https://github.com/{place}/issues/{number})"
