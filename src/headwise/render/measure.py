"""What can be said of a head in one number: the mean of a statistic, or of what the head writes, over all tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwise.attention.statistics import statistics
from headwise.errors import ArgumentError
from headwise.render.head_table import HeadTable

if TYPE_CHECKING:
    from headwise.models.run import Run


@dataclass(frozen=True)
class Measure:
    """One number a head.

    Attributes:
        statement: what it tells, in a sentence.
        unit: of the number.
        writes: the variable of `run.writes` that it is the mean of; None where it is a statistic.
    """

    statement: str
    unit: str = ""
    writes: str | None = None


WRITES = {
    "write_share": Measure("What the head adds to the layer's output, as a share of what all its heads add.", writes="share"),
    "write_norm": Measure("The length of what the head adds to the layer's output.", writes="norm"),
    "write_cosine": Measure("The cosine between what the head adds and what all heads add together.", writes="cosine"),
}


def measures() -> Mapping[str, Measure]:
    """Every measure by name: all statistics that have one number a row whose mean says something, and the writes.

    Example:
        >>> list(measures())[:3], "peak" in measures()
        (['distance', 'entropy', 'first'], False)
    """
    means = {name: entry for name, entry in statistics().items() if not entry.opt_in and name != "peak"}
    return {**{name: Measure(entry.statement, entry.unit) for name, entry in means.items()}, **WRITES}


def measure_name(asked: str) -> str:
    """The name as `measures` has it.

    Example:
        >>> measure_name("write share")
        'write_share'
    """
    name = asked.strip().lower().replace(" ", "_").replace("-", "_")
    if name not in measures():
        raise ArgumentError(f"statistic must be one of {', '.join(measures())}, got {asked!r}. Correct the name.")
    return name


def head_table(run: "Run", part: str, name: str) -> HeadTable:
    """The mean of one measure over every token of the run that is not padding, for each head of a part.

    Raises:
        WritesRefused: what the heads of this model write cannot be told apart.
    """
    measure = measures()[name]
    found = run.writes_of(part)[measure.writes] if measure.writes else run.statistics_of(part)[name]
    values = found.mean(("batch", "query"), skipna=True).transpose("layer", "head").values.astype(float)
    layers, rows = tuple(found.layer.values.tolist()), tuple(map(tuple, values.tolist()))
    return HeadTable(part, name, measure.statement, measure.unit, layers, rows, _group(found))


def _group(found: Any) -> int:
    """How many heads share a key head; 1 where layers differ in it."""
    groups = {found.sizes["head"] // key_heads for key_heads in found["key_heads"].values.tolist()}
    return groups.pop() if len(groups) == 1 else 1
