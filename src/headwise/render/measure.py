"""Measures of a head as one number: the mean over all tokens of a statistic, or of a measure of its write."""

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
        statement: what it measures, in a sentence.
        unit: of the number.
        writes: the variable of `run.writes` whose mean it is; None for a statistic.
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
    """Every measure by name: the statistics with one number per row whose mean is meaningful, and the measures of writes.

    Example:
        >>> list(measures())[:3], "peak" in measures()
        (['distance', 'entropy', 'first'], False)
    """
    means = {name: entry for name, entry in statistics().items() if not entry.opt_in and name != "peak"}
    return {**{name: Measure(entry.statement, entry.unit) for name, entry in means.items()}, **WRITES}


def measure_name(text: str) -> str:
    """The name of a measure as `measures` lists it, from a user's spelling.

    Example:
        >>> measure_name("write share")
        'write_share'
    """
    name = text.strip().lower().replace(" ", "_").replace("-", "_")
    if name not in measures():
        raise ArgumentError(f"statistic must be one of {', '.join(measures())}, got {text!r}. Correct the name.")
    return name


def head_table(run: "Run", part: str, name: str) -> HeadTable:
    """The mean of one measure over all tokens except padding, for each head of a part.

    Raises:
        WritesRefused: writes cannot be attributed to the heads of this model.
    """
    measure = measures()[name]
    found = run.writes_of(part)[measure.writes] if measure.writes else run.statistics_of(part)[name]
    values = found.mean(("batch", "query"), skipna=True).transpose("layer", "head").values.astype(float)
    layers, rows = tuple(found.layer.values.tolist()), tuple(map(tuple, values.tolist()))
    return HeadTable(part, name, measure.statement, measure.unit, layers, rows, _group(found))


def _group(found: Any) -> int:
    """The number of heads that share a key head; 1 if layers differ in it."""
    groups = {found.sizes["head"] // key_heads for key_heads in found["key_heads"].values.tolist()}
    return groups.pop() if len(groups) == 1 else 1
