"""What an experiment found: the verdict, the numbers that made it, and a picture of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["kept", "cut", "corrected", "can't tell"]
VERDICTS: tuple[Verdict, ...] = ("kept", "corrected", "cut", "can't tell")


@dataclass(frozen=True)
class Number:
    """One number of a card.

    Attributes:
        means: what it is, in words; "" where its name says it.
        low: lower end of its 95 % interval; None where it is exact.
        high: upper end.
        unit: such as "nats", "heads", "share"; "" for a plain number.
        published: what the source found, as it stands there; None where it gives no such number.
    """

    value: float
    means: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    published: str | None = None


@dataclass(frozen=True)
class Series:
    """Points of a picture, x rising for lines; `low` and `high` draw a band around a line."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Plot:
    """A picture of at most a few series and at most 300 points each.

    Attributes:
        kind: "line", "points" or "bars".
        across: label of x.
        up: label of y.
        equal: a level to compare with, drawn as a dashed line, such as 1 / heads.
    """

    kind: Literal["line", "points", "bars"]
    across: str
    up: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    equal: float | None = None


@dataclass(frozen=True)
class Card:
    """The outcome of a claim's experiment.

    Attributes:
        says: one to three sentences with the numbers that decided, or how many texts would be needed.
        correction: for "corrected": the sentence as it holds, such as "Better up to a point."
        numbers: all that was measured, by name.
        texts: how many texts were read, and `tokens` of them.
        measure: what was measured as the loss: "next", "masked", "kl", "cosine"; "" where no loss is involved.
        cited: nothing here was measured on this machine.
    """

    verdict: Verdict
    says: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    plot: Plot | None = None
    correction: str = ""
    texts: int = 0
    tokens: int = 0
    measure: str = ""
    cited: bool = False
