"""What `hw.roles` found, as tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from headwise.render.head_table import HeadTable

if TYPE_CHECKING:
    import xarray

COLUMNS = ("task", "found", "layer", "head", "held", "held_low", "held_high", "baseline", "baseline_low", "baseline_high", "rule", "texts", "questions")


def task_rows(found: "xarray.Dataset") -> list[tuple[Any, ...]]:
    """A row a task: the head that was chosen on one half, its score on the other, and the baseline's."""
    rows = []
    for place, task in enumerate(found["task"].values.tolist()):
        here = found.isel(task=place)
        head = (bool(here["found"]), int(here["best_layer"]), int(here["best_head"]))
        numbers = (float(here[name]) for name in COLUMNS[4:10])
        rows.append((task, *head, *numbers, str(here["rule"].values), int(here["texts"]), int(here["questions"])))
    return rows


def head_rows(found: "xarray.Dataset") -> list[tuple[int, int, str]]:
    """A row a head: the role that it certainly plays, or none."""
    return [(layer, head, role) for layer, row in enumerate(found["role"].values.tolist()) for head, role in enumerate(row)]


def task_table(found: "xarray.Dataset", task: str) -> HeadTable:
    """The score of every head in one task."""
    here = found.sel(task=task)
    group = found.attrs.get("group", 1)
    return HeadTable(found.attrs["part"], task, f"{task}: the score of every head.", "", tuple(found.layer.values.tolist()), _rows(here["score"]), group)


def leading_task(found: "xarray.Dataset") -> str:
    """The task with the largest lead."""
    return str(found["task"].values[int(np.nanargmax(found["held_gain"].values))])


def role_lines(found: "xarray.Dataset") -> Iterator[Any]:
    """The roles that heads play, then those that none does, then what could not be asked."""
    told, rows = found.attrs, task_rows(found)
    played = [row for row in rows if row[1]]
    yield Text.assemble((told["model"], "bold"), f"  {told['part']}: {found.sizes['layer']} layers of {found.sizes['head']} heads")
    yield Text(f"\nroles that a head plays: {len(played)} of {len(rows)}", "bold")
    certain = int((found["role"].values != "none").sum())
    yield Text(f"Chosen on one half of the texts, judged on the other; intervals over texts. {certain} heads certainly play one.", "dim")
    yield _table(sorted(played, key=lambda row: row[7] - row[4]))
    others = [row for row in rows if not row[1]]
    if others:
        yield Text("\nno head plays these", "bold")
        yield _table(others)
    for task, reason in told["left_out"].items():
        yield Text.assemble("\n" if task == next(iter(told["left_out"])) else "", (f"not asked: {task}: {reason}", "yellow"))


def _table(rows: list[tuple[Any, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("role", "head", "score", "95 %", "rule", "95 %", "best rule"):
        table.add_column(name, no_wrap=name != "role")
    for task, plays, layer, head, score, low, high, base, base_low, base_high, rule, _, _ in rows:
        mark = Text(f"{layer}.{head}", "bold green" if plays else "dim")
        ends = (f"{low:.2f}–{high:.2f}", f"{base_low:.2f}–{base_high:.2f}")
        table.add_row(task, mark, f"{score:.2f}", Text(ends[0], "dim"), f"{base:.2f}", Text(ends[1], "dim"), Text(rule, "dim"))
    return table


def _rows(values: "xarray.DataArray") -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.transpose("layer", "head").values.tolist()))
