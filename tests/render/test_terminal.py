from io import StringIO

import pytest
from rich.console import Console

from headwise.render.head_table import HeadTable
from headwise.render.head_view import HeadRow
from headwise.render.standout_heads import StandoutHeads
from headwise.render.terminal import bar, head_grid, row_table, standout_table, token_line
from headwise.render.visible_text import visible_text

NAN = float("nan")


def printed(*parts, width=80, colour=False):
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None, highlight=False)
    for part in parts:
        console.print(part)
    return out.getvalue()


def grid(values, width=80, colour=False, group=1, unit=""):
    table = HeadTable("self", "first", "", unit, tuple(range(len(values))), values, group)
    return printed(*head_grid(table, width), width=width, colour=colour).splitlines()


def test_numbers_can_be_read_without_colour():
    lines = grid(((0.25, 1.0), (NAN, 0.5)), unit="nats")
    assert lines[0].split() == ["H0", "H1"]
    assert lines[1].split() == ["L0", "0.25", "1.00"]
    assert lines[2].split() == ["L1", "·", "0.50"]
    assert lines[3].split() == ["0.00", "1.00", "nats"]


def test_cells_are_coloured_from_end_to_end_of_the_ramp():
    text = "\n".join(grid(((0.0, 1.0),), colour=True))
    assert "48;2;25;30;39m" in text  # the dark end, behind 0.00
    assert "48;2;237;234;173m" in text  # the light end, behind 1.00


@pytest.mark.parametrize("group", [1, 4])
def test_no_line_is_wider_than_the_terminal_and_no_head_is_lost(group):
    values = tuple(tuple(head + layer / 10 for head in range(32)) for layer in range(3))
    lines = grid(values, width=60, group=group)
    assert max(map(len, lines)) <= 60
    assert [word for line in lines if "H" in line for word in line.split()] == [f"H{head}" for head in range(32)]
    assert [word for line in lines if line.startswith("L1") for word in line.split()[1:]] == [f"{head + 0.1:.1f}" for head in range(32)]


def test_heads_of_one_key_head_stand_together():
    header, row, _ = grid(((0.1,) * 6,), group=3)
    assert header.index("H3") - header.index("H2") == header.index("H1") - header.index("H0") + 1
    assert row.count("0.10") == 6


def test_numbers_stand_under_their_heads():
    header, row, _ = grid(((0.1, 0.2, 0.3, 0.4),), group=2)
    assert [header.index(f"H{head}") + 2 for head in range(4)] == [row.index(f"0.{head + 1}0") + 4 for head in range(4)]


def test_long_texts_show_both_ends():
    line = printed(token_line([f"t{place}" for place in range(100)], limit=10), width=500)
    assert "100 tokens" in line
    assert "t4 " in line
    assert "90 more" in line
    assert "t95" in line
    assert "t50" not in line


def test_white_space_is_seen():
    assert visible_text(" a\n\tb\r\u200d") == "␣a↵⇥b␍<U+200D>"


def test_rows_show_each_weight_as_number_and_bar():
    rows = [HeadRow(2, " sat", ((1, " cat", 0.75), (0, "The", 0.25)), 0.0)]
    (line,) = printed(row_table(rows, width=4)).splitlines()
    assert line.split() == ["2", "␣sat", "0.75", "███", "␣cat", "0.25", "█", "The", "rest", "0.00"]


@pytest.mark.parametrize(("share", "drawn"), [(-1.0, ""), (0.0, ""), (0.125, "▌"), (1.0, "████"), (2.0, "████")])
def test_bars_end_at_their_ends(share, drawn):
    assert bar(share, 4) == drawn


def test_the_table_of_standout_heads_names_layer_head_and_number():
    line = printed(standout_table([StandoutHeads("most on itself", "self", ((3, 5, 0.912), (0, 1, 0.5)))]))
    assert line.split() == ["most", "on", "itself", "3.5", "0.91", "0.1", "0.50", "self"]
