"""The five moves before and after an attack, in the terminal: what every head looks at, and what became of each invariant."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headwise.render.colours import colour, ink

if TYPE_CHECKING:
    from headwise.conformance.exact.move_verdict import MoveVerdict
    from headwise.conformance.five_moves import FiveMoves

SIGNS = {"holds": ("✓ holds", "green"), "falls": ("✗ falls", "bold red"), "vacuous": ("– vacuous", "dim")}


def moves_lines(before: "FiveMoves", after: "FiveMoves") -> Iterator[RenderableType]:
    """Weights of every head side by side, then a verdict a move with what it rests on, then the witness."""
    yield pattern_table(before, after)
    yield Text()
    yield verdict_table(before, after)
    yield Text()
    yield witness_line(after)


def pattern_table(before: "FiveMoves", after: "FiveMoves") -> Table:
    """A row a head: its weights before and after."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "weights before", "weights after"):
        table.add_column(title)
    for head, (old, new) in enumerate(zip(before.matrices["weights"], after.matrices["weights"], strict=True)):
        table.add_row(Text(f"head {head}", "dim"), _cells(old), _cells(new))
        table.add_row()
    return table


def verdict_table(before: "FiveMoves", after: "FiveMoves") -> Table:
    """A row a move."""
    from headwise.conformance.invariants.invariant import invariants

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("move", "", "before", "after"):
        table.add_column(title)
    for invariant in invariants("exact").values():
        old, new = before.verdicts[invariant.code], after.verdicts[invariant.code]
        words = Text.assemble(invariant.statement, "\n", (invariant.formula, "cyan"), "\n", (_because(new), "dim"))
        table.add_row(Text(invariant.code, "bold"), words, Text(*SIGNS[old.state]), Text(*SIGNS[new.state]))
    return table


def witness_line(after: "FiveMoves") -> Text:
    """What the witness, who goes another way, has to say."""
    fallen = [code for code, verdict in after.witness.items() if verdict.state == "falls"]
    if after.red:
        return Text(f"The witness, by another route, is red: {', '.join(fallen) or 'it disagrees'}.", "bold red")
    return Text("The witness, by another route, agrees: nothing falls.", "bold green")


def _because(verdict: "MoveVerdict") -> str:
    return verdict.why or f"proved: {verdict.decisive}"


def _cells(rows: Sequence[Sequence[float]]) -> Text:
    text = Text()
    for place, row in enumerate(rows):
        text.append("\n" if place else "")
        for weight in row:
            paper = colour(weight)
            text.append(f" {weight:.2f} ", style=f"{ink(paper)} on {paper}")
    return text
