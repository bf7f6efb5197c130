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
class Telling:
    """The answer to one question.

    Attributes:
        question: "most on the previous token".
        measure: whose largest numbers these are.
        heads: layer, head and number, the largest first.
    """

    question: str
    measure: str
    heads: tuple[tuple[int, int, float], ...]


def telling(tables: Mapping[str, HeadTable], count: int = 3) -> tuple[Telling, ...]:
    """The `count` most telling heads for each question whose table is there.

    Example:
        >>> table = HeadTable("self", "first", "", "", (0, 1), ((0.1, 0.9), (0.4, float("nan"))))
        >>> telling({"first": table}, count=2)[0].heads
        ((0, 1, 0.9), (1, 0, 0.4))
    """
    return tuple(Telling(question, name, _largest(tables[name], count)) for question, name in QUESTIONS.items() if name in tables)


def _largest(table: HeadTable, count: int) -> tuple[tuple[int, int, float], ...]:
    rows = zip(table.layers, table.values, strict=True)
    heads = [(layer, head, value) for layer, row in rows for head, value in enumerate(row) if math.isfinite(value)]
    return tuple(sorted(heads, key=lambda entry: -entry[2])[:count])
