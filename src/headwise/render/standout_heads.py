"""The heads that stand out: for each of a few measures, those with the largest number."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headwise.render.head_table import HeadTable

QUESTIONS = {
    "sharpest": "max_weight",
    "most on the first token": "first",
    "most on the previous token": "previous",
    "most on itself": "self",
    "largest share of what is written": "write_share",
}


@dataclass(frozen=True)
class StandoutHeads:
    """The heads with the largest values of one measure.

    Attributes:
        question: a short label, such as "most on the previous token".
        measure: the name of the measure.
        heads: layer, head and value, the largest first.
    """

    question: str
    measure: str
    heads: tuple[tuple[int, int, float], ...]


def standout_heads(tables: Mapping[str, HeadTable], count: int = 3) -> tuple[StandoutHeads, ...]:
    """The `count` heads with the largest values, for each question whose measure has a table.

    Example:
        >>> table = HeadTable("self", "first", "", "", (0, 1), ((0.1, 0.9), (0.4, float("nan"))))
        >>> standout_heads({"first": table}, count=2)[0].heads
        ((0, 1, 0.9), (1, 0, 0.4))
    """
    return tuple(StandoutHeads(question, name, _largest(tables[name], count)) for question, name in QUESTIONS.items() if name in tables)


def _largest(table: HeadTable, count: int) -> tuple[tuple[int, int, float], ...]:
    rows = zip(table.layers, table.values, strict=True)
    heads = [(layer, head, value) for layer, row in rows for head, value in enumerate(row) if math.isfinite(value)]
    return tuple(sorted(heads, key=lambda entry: -entry[2])[:count])
