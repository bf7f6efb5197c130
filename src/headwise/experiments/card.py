"""The outcome of an experiment: a verdict, the numbers that decided it, and a plot of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwise.deprecation import warn

ClaimVerdict = Literal["kept", "cut", "corrected", "inconclusive"]
VERDICTS: Mapping[ClaimVerdict, str] = {
    "kept": "supported",
    "corrected": "partly supported: true of some part of it, which the card names",
    "cut": "refuted",
    "inconclusive": "the numbers do not decide",
}


@dataclass(frozen=True)
class Number:
    """One number of a card.

    Attributes:
        means: what was measured, in words; "" where the name says it.
        low: lower end of its 95 % interval; None where it is exact.
        high: upper end.
        unit: such as "nats", "heads", "share"; "" for a plain number.
        published: the source's own figure, as printed there; None where it gives none.
    """

    value: float
    means: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    published: str | None = None


@dataclass(frozen=True)
class Series:
    """Points of a plot, with x ascending for lines; `low` and `high` draw a band around a line."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Plot:
    """A plot of a few series of at most 300 points each.

    Attributes:
        kind: "line", "points" or "bars".
        reference: a level to compare with, drawn as a dashed line, such as 1 / heads.
    """

    kind: Literal["line", "points", "bars"]
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    reference: float | None = None


@dataclass(frozen=True)
class Card:
    """The outcome of a claim's experiment.

    Attributes:
        summary: one to three sentences with the numbers that decided, or how many texts would be needed.
        correction: for "corrected": the sentence as it holds, such as "Better up to a point."
        numbers: everything that was measured, by name.
        texts: how many texts were read, with `tokens` tokens in all.
        measure: the loss: "next", "masked", "kl" or "cosine"; "" where no loss is involved.
        cited: nothing here was measured on this machine.
    """

    verdict: ClaimVerdict
    summary: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    plot: Plot | None = None
    correction: str = ""
    texts: int = 0
    tokens: int = 0
    measure: str = ""
    cited: bool = False

    @property
    def says(self) -> str:
        """Deprecated: `summary`."""
        warn("Card.says", "summary")
        return self.summary
