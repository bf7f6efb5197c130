"""Numbers with their intervals, and on which side of a bar they certainly lie."""

from math import ceil
from typing import Literal

import torch

from headwise.analysis.intervals import bootstrap
from headwise.axes import Float, Tensor
from headwise.experiments.card import Number

Side = Literal["above", "below", "unsure"]


def mean_over_texts(
    values: Float[Tensor, " n"], counts: Float[Tensor, " n"] | None = None, *, seed: int = 0, means: str = "", unit: str = "", published: str | None = None
) -> Number:
    """The mean over texts with its bootstrap interval.

    Args:
        values: a mean for each text.
        counts: what each is a mean over: its weight. Equal when absent.
        means: what the number is, in words.

    Example:
        >>> found = mean_over_texts(torch.tensor([1.0, 3.0]))
        >>> found.value, found.low, found.high
        (2.0, 1.0, 3.0)
    """
    weight = torch.ones_like(values) if counts is None else counts
    found = bootstrap(values * weight, weight, seed)
    return Number(float(found.mean), means, float(found.low), float(found.high), unit, published)


def bounds(number: Number) -> tuple[float, float]:
    """Both ends of its interval: of a number without one, itself.

    Example:
        >>> bounds(Number(2.0)), bounds(Number(2.0, low=1.0, high=3.0))
        ((2.0, 2.0), (1.0, 3.0))
    """
    return number.value if number.low is None else number.low, number.value if number.high is None else number.high


def side_of(number: Number, bar: float) -> Side:
    """Where the whole interval lies; a number without an interval is exact.

    Example:
        >>> side_of(Number(2.0, low=1.0, high=3.0), 1.5), side_of(Number(2.0, low=1.0, high=3.0), 0.5)
        ('unsure', 'above')
    """
    low, high = bounds(number)
    return "above" if low > bar else "below" if high < bar else "unsure"


def texts_needed(number: Number, bar: float, texts: int) -> int | None:
    """How many texts of the kind would put the bar outside the interval, if the mean stayed: its half-width shrinks by their root.

    None where the mean lies on the bar: no number of texts would.

    Example:
        >>> texts_needed(Number(2.0, low=1.0, high=3.0), 1.5, 10)
        40
    """
    away = abs(number.value - bar)
    half = 0.0 if number.low is None or number.high is None else (number.high - number.low) / 2
    return max(texts, ceil(texts * (half / away) ** 2)) if away else None
