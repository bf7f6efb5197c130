"""Tables of a run for the terminal: coloured cells that contain their numbers, so that they are readable without colour."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from headwise.render.colours import colour, ink
from headwise.render.head_table import HeadTable, number
from headwise.render.head_view import HeadRow
from headwise.render.standout_heads import StandoutHeads
from headwise.render.visible_text import visible_text

if TYPE_CHECKING:
    from headwise.models.verification.proof import Proof

EIGHTHS = " ▏▎▍▌▋▊▉█"
SIGNS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}


def head_grid(table: HeadTable, width: int) -> Iterator[Text]:
    """One line for each layer and one cell for each head, grouped by shared key head; wide layers continue in another block.

    Args:
        width: of the terminal, in characters.
    """
    low, high = table.scale
    cell = max(len(number(value, high)) for row in table.values for value in (*row, low, high)) + 2
    margin = len(f"L{max(table.layers, default=0)} ")
    fit = max((width - margin) // (cell + (1 if table.group > 1 else 0)), 1)
    for start in range(0, table.heads, fit):
        heads = range(start, min(start + fit, table.heads))
        yield Text(" " * margin + _spaced([f"H{head} ".rjust(cell) for head in heads], heads, table.group), style="dim")
        for layer, row in zip(table.layers, table.values, strict=True):
            yield _row(f"L{layer}".ljust(margin), row, heads, table, cell)
    yield _legend(table)


def token_line(tokens: Sequence[str], limit: int = 60) -> Text:
    """The tokens on alternating backgrounds; only the first and last ones of a long text."""
    line = Text(f"{len(tokens)} tokens  ", style="bold")
    shown = tokens if len(tokens) <= limit else [*tokens[: limit // 2], *tokens[-limit // 2 :]]
    for place, token in enumerate(shown):
        if place == limit // 2 and len(tokens) > limit:
            line.append(f" … {len(tokens) - limit} more … ", style="not bold dim")
        line.append(visible_text(token), style="not bold reverse" if place % 2 else "not bold underline")
        line.append(" ", style="not bold")
    return line


def standout_table(found: Iterable[StandoutHeads]) -> Table:
    """One row for each question: the heads with the largest values."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for answer in found:
        heads = "   ".join(f"{layer}.{head} {number(value, 1.0)}" for layer, head, value in answer.heads)
        table.add_row(Text(answer.question), Text(heads, style="bold"), Text(answer.measure, style="dim"))
    return table


def row_table(rows: Iterable[HeadRow], width: int = 8) -> Table:
    """One line for each query token: the keys with the largest weights, each weight as a number and a bar."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        keys = Text()
        for _, token, weight in row.keys:
            keys.append(f"{weight:.2f} ", style="bold").append(bar(weight, width), style="cyan").append(f" {visible_text(token)}   ")
        keys.append(f"rest {row.rest:.2f}", style="dim")
        table.add_row(Text(str(row.query), style="dim"), Text(visible_text(row.token)), keys)
    return table


def proof_table(proof: "Proof") -> Table:
    """One row for each verified property: its residual and the rounding tolerance."""
    passed = sum(verdict.passed is True for verdict in proof.verdicts.values())
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.add_column(Text("proof", "bold"))
    table.add_column(Text(f"{passed} of {len(proof.verdicts)} passed", "bold green" if proof.passed else "bold red"))
    table.add_column("off by", justify="right")
    table.add_column("allowed", justify="right")
    for verdict in proof.verdicts.values():
        claim = Text(verdict.sentence)
        if verdict.passed is False:
            claim.append(f" ({verdict.place})", style="red")
        table.add_row(Text(*SIGNS[verdict.passed]), claim, _residual(verdict.residual), _residual(verdict.allowed))
    return table


def _residual(number: float | None) -> str:
    return "" if number is None else f"{number:.1e}" if number else "0"


def bar(share: float, width: int) -> str:
    """A bar of blocks, in eighths of a character.

    Example:
        >>> bar(0.5, 4), bar(0.3, 4), bar(0.0, 4)
        ('██', '█▎', '')
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _row(label: str, row: Sequence[float], heads: range, table: HeadTable, cell: int) -> Text:
    line = Text.assemble((label, "dim"))
    for head in heads:
        line.append(_gap(head, heads, table.group))
        line.append_text(_cell(row[head] if head < len(row) else float("nan"), table, cell))
    return line


def _cell(value: float, table: HeadTable, cell: int) -> Text:
    word = f"{number(value, table.scale[1])} ".rjust(cell)
    if value != value:
        return Text(word, style="dim")
    paper = colour(table.share(value))
    return Text(word, style=f"{ink(paper)} on {paper}")


def _spaced(words: Sequence[str], heads: range, group: int) -> str:
    return "".join(_gap(head, heads, group) + word for head, word in zip(heads, words, strict=True))


def _gap(head: int, heads: range, group: int) -> str:
    return " " if group > 1 and head > heads.start and head % group == 0 else ""


def _legend(table: HeadTable) -> Text:
    low, high = table.scale
    line = Text.assemble((f"{number(low, high)} ", "dim"))
    for step in range(16):
        line.append(" ", style=f"on {colour(step / 15)}")
    return line.append(f" {number(high, high)}{f' {table.unit}' if table.unit else ''}", style="dim")
