"""A run in the terminal: coloured cells that hold their numbers, so that they read without colour too."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from headwise.show.ramp import colour, ink
from headwise.show.table import HeadTable, number

EIGHTHS = " ▏▎▍▌▋▊▉█"


def head_grid(table: HeadTable, width: int) -> Iterator[Text]:
    """A line a layer, a cell a head; heads that share a key head stand together. Too many heads go on in a further block.

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


def _row(label: str, row: Sequence[float], heads: range, table: HeadTable, cell: int) -> Text:
    line = Text(label, style="dim")
    line.stylize("not dim", len(label))
    for head in heads:
        if head > heads.start and table.group > 1 and head % table.group == 0:
            line.append(" ")
        line.append_text(_cell(row[head] if head < len(row) else float("nan"), table, cell))
    return line


def _cell(value: float, table: HeadTable, cell: int) -> Text:
    word = f"{number(value, table.scale[1])} ".rjust(cell)
    if value != value:
        return Text(word, style="dim")
    paper = colour(table.share(value))
    return Text(word, style=f"{ink(paper)} on {paper}")


def _spaced(words: Sequence[str], heads: range, group: int) -> str:
    gaps = [" " if group > 1 and head > heads.start and head % group == 0 else "" for head in heads]
    return "".join(gap + word for gap, word in zip(gaps, words, strict=True))


def _legend(table: HeadTable) -> Text:
    low, high = table.scale
    line = Text(f"{number(low, high)} ", style="dim")
    for step in range(16):
        line.append(" ", style=f"on {colour(step / 15)}")
    return line.append(f" {number(high, high)}{f' {table.unit}' if table.unit else ''}", style="dim")


def bar(share: float, width: int) -> str:
    """A bar of blocks, in eighths of a character.

    Example:
        >>> bar(0.5, 4), bar(0.3, 4), bar(0.0, 4)
        ('██', '█▎', '')
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
