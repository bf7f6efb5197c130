"""Numbers over a few trainings: intervals are those of Student's t, as a bootstrap of three has nothing to draw from."""

from collections.abc import Sequence
from math import exp, lgamma, pi

from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError
from headwise.experiments.card import Number

TAIL = 0.025
STEPS = 2000  # of the integral


def over_seeds(values: Sequence[float], means: str = "", unit: str = "", published: str | None = None) -> Number:
    """The mean of trainings that differ by their seed, with its 95 % interval.

    Raises:
        ArgumentError: fewer than two values.

    Example:
        >>> found = over_seeds([1.0, 2.0, 3.0])
        >>> found.value, round(found.low, 2), round(found.high, 2)
        (2.0, -0.48, 4.48)
    """
    n = len(values)
    if n < 2:
        raise ArgumentError(f"values must be two or more for an interval, got {n}. Train with other seeds.")
    mean = sum(values) / n
    half = student(TAIL, n - 1) * (sum((x - mean) ** 2 for x in values) / (n - 1) / n) ** 0.5
    return Number(mean, means, mean - half, mean + half, unit, published)


def difference(table: Float[Tensor, "seeds kinds"], one: int, other: int, comparisons: int, means: str = "", unit: str = "") -> Number:
    """By how much trainings of one kind differ from those of another, seed by seed, with an interval that holds for so many comparisons at once (Bonferroni).

    The spread is that of all kinds: what is left of the table when the mean of each seed and of each kind is taken off.

    Raises:
        ArgumentError: fewer than two seeds or kinds.

    References:
        Fisher 1925, chapter 8: the analysis of variance in two directions without repetition.
    """
    seeds, kinds = table.shape
    if seeds < 2 or kinds < 2:
        raise ArgumentError(f"table must have two seeds and two kinds or more, got {seeds} and {kinds}. Train with other seeds.")
    rest = table - table.mean(0) - table.mean(1, keepdim=True) + table.mean()
    degrees = (seeds - 1) * (kinds - 1)
    half = student(TAIL / comparisons, degrees) * (2 / seeds * float(rest.square().sum()) / degrees) ** 0.5
    mean = float((table[:, one] - table[:, other]).mean())
    return Number(mean, means, mean - half, mean + half, unit)


def student(tail: float, degrees: int) -> float:
    """Where Student's t distribution leaves this much above it.

    Example:
        >>> round(student(0.025, 2), 3), round(student(0.005, 10), 3)
        (4.303, 3.169)
    """
    low, high = 0.0, 2.0
    while _above(high, degrees) > tail:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _above(middle, degrees) > tail else (low, middle)
    return (low + high) / 2


def _above(x: float, degrees: int) -> float:
    """The distribution above x: one half less Simpson's integral of its density from 0."""
    scale = exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / (degrees * pi) ** 0.5
    step = x / STEPS
    inner = sum((4 if i % 2 else 2) * (1 + (i * step) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(1, STEPS))
    ends = 1 + (1 + x * x / degrees) ** (-(degrees + 1) / 2)
    return 0.5 - scale * step / 3 * (inner + ends)
