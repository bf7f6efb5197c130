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
KEY = "● caught by whom it names   ○ caught by others too   · held   ! not as it should be   (blank: says nothing about it)"


def matrix_lines(matrix: "KillMatrix") -> Iterator[RenderableType]:
    """A line an attack, a column an invariant, and what it comes to."""
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
    """What each invariant saw first, for a few attacks."""
    for row in matrix.rows:
        yield Text.assemble((row_name(row), "bold"), f"  {row.description}")
        table = Table(box=None, pad_edge=False, show_header=False)
        for name in matrix.codes:
            if name in row.detected or name in row.required:
                mark = matrix.mark(row, name)
                table.add_row(Text(mark, STYLES[mark]), matrix.codes[name], name, row.detected.get(name, "did not see it"))
        yield table
    yield verdict(matrix)


def verdict(matrix: "KillMatrix") -> Text:
    """One line."""
    attacks = sum(bool(row.required) for row in matrix.rows)
    if matrix.complete:
        rest = len(matrix.rows) - attacks
        return Text(f"{attacks} of {attacks} caught by all whom they name" + (f"; {rest} that are no fault accused by nobody." if rest else "."), "bold green")
    return Text("Not as it should be: " + "; ".join(row_name(row) for row in matrix.unexpected) + ".", "bold red")


def row_name(row: "Row") -> str:
    """The attack, and how it is told."""
    return f"{row.mutation}: {row.variant}" if row.variant else row.mutation


def page(matrix: "KillMatrix") -> str:
    """The matrix in Markdown: a section for the invariants, one for the table, one for the lies."""
    from headwise.catalog import entries
    from headwise.conformance.kill_matrix import UNMUTATED
    from headwise.conformance.mutations.mutation import mutations

    statements = {name: entry.statement for name, entry in entries("headwise.conformance.invariants").items()}
    reported_in = {name: entry.reported_in for name, entry in mutations().items()}
    lines = [
        "# Kill matrix",
        "",
        "Every attack on attention that headwise knows, against every invariant that it keeps. An attack is a lie told at one step of our own implementation;",
        "an invariant looks at answers only, and compares them with one another or with an oracle that shares no code with them.",
        "",
        f"{verdict(matrix).plain} Controls (faults that are none) and our own engine stand at the end of the table.",
        "",
        "`headwise attack` makes the table anew, `headwise attack NAME` shows what each invariant saw.",
        "Generated from `src/headwise/conformance/` by `make docs`.",
        "",
        "## Invariants",
        "",
        "| code | invariant | what holds |",
        "| --- | --- | --- |",
        *(f"| {code} | `{name}` | {statements[name]} |" for name, code in matrix.codes.items()),
        "",
        "## Attacks × invariants",
        "",
        KEY,
        "",
        "```text",
        *(line.plain.rstrip() for line in matrix_lines(matrix) if isinstance(line, Text) and line.plain != KEY and line.plain != verdict(matrix).plain),
        "```",
        "",
        "## The lies",
        "",
        "| attack | what is claimed | where the like happened |",
        "| --- | --- | --- |",
    ]
    known = {row.mutation: row for row in matrix.rows if row.mutation != UNMUTATED}
    lines += [f"| `{name}` | {row.description} | {', '.join(map(link, reported_in.get(name, ())))} |" for name, row in sorted(known.items())]
    return "\n".join(lines) + "\n"


def as_data(matrix: "KillMatrix") -> dict[str, Any]:
    """The matrix as the page reads it: what each invariant says, and of each row whether it is an attack, a control or our own engine."""
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


def data_of_page(words: str) -> dict[str, Any]:
    """What `as_data` gives, read from the page that `page` wrote: but for what each invariant saw first."""
    from headwise.catalog import entries

    invariants, attacks = entries("headwise.conformance.invariants"), entries("headwise.conformance.mutations")
    names = re.findall(r"^\| \S+ \| `(\w+)` \|", words.split("## Invariants")[1].split("## Attacks")[0], re.MULTILINE)
    header, *lines = words.split("```text\n")[1].split("\n```")[0].splitlines()
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
    """owner/name#number as a link."""
    place, _, number = thread.partition("#")
    return f"[{thread}](https://github.com/{place}/issues/{number})"
