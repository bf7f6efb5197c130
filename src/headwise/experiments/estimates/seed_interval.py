"""Means over a few trainings with different seeds. Intervals are Student's t: a bootstrap of three values has nothing to resample."""

from collections.abc import Sequence

from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError
from headwise.experiments.card import Number

TAIL = 0.025


def mean_over_seeds(values: Sequence[float], means: str = "", unit: str = "", published: str | None = None) -> Number:
    """The mean over trainings that differ only in their seed, with its 95 % interval.

    Raises:
        ArgumentError: fewer than two values.

    Example:
        >>> found = mean_over_seeds([1.0, 2.0, 3.0])
        >>> found.value, round(found.low, 2), round(found.high, 2)
        (2.0, -0.48, 4.48)
    """
    n = len(values)
    if n < 2:
        raise ArgumentError(f"An interval over trainings needs at least two of them, got {n}. Train with more seeds.")
    mean = sum(values) / n
    half = t_quantile(TAIL, n - 1) * (sum((x - mean) ** 2 for x in values) / (n - 1) / n) ** 0.5
    return Number(mean, means, mean - half, mean + half, unit, published)


def paired_difference(table: Float[Tensor, "seeds kinds"], one: int, other: int, comparisons: int, means: str = "", unit: str = "") -> Number:
    """How much trainings of one kind differ from those of another, paired by seed; the interval holds for all comparisons at once (Bonferroni).

    The variance is pooled over all kinds: what remains of the table once the mean of each seed and of each kind is subtracted.

    Args:
        comparisons: how many differences are judged together.

    Raises:
        ArgumentError: fewer than two seeds or kinds.

    References:
        Fisher 1925, chapter 8: two-way analysis of variance without replication.
    """
    seeds, kinds = table.shape
    if seeds < 2 or kinds < 2:
        raise ArgumentError(f"A paired difference needs at least two seeds and two kinds, got {seeds} and {kinds}. Train with more seeds.")
    rest = table - table.mean(0) - table.mean(1, keepdim=True) + table.mean()
    degrees = (seeds - 1) * (kinds - 1)
    half = t_quantile(TAIL / comparisons, degrees) * (2 / seeds * float(rest.square().sum()) / degrees) ** 0.5
    mean = float((table[:, one] - table[:, other]).mean())
    return Number(mean, means, mean - half, mean + half, unit)


def t_quantile(tail: float, degrees: int) -> float:
    """The point of Student's t distribution with this probability above it.

    Example:
        >>> round(t_quantile(0.025, 2), 3), round(t_quantile(0.005, 10), 3)
        (4.303, 3.169)
    """
    from scipy.special import stdtrit

    return float(-stdtrit(degrees, tail))
