"""One number for each head of each layer, as shown in the terminal, in figures and in JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwise.errors import ArgumentError


@dataclass(frozen=True)
class HeadTable:
    """One measure of every head.

    Attributes:
        part: which attention of the model: "self", "encoder.self", "decoder.cross" ...
        measure: its name.
        statement: what it measures, in a sentence.
        unit: of the numbers; empty for weights and shares.
        layers: the index of each row.
        values: one row for each layer, one number for each head; NaN if a layer lacks the head or the number.
        group: the number of heads that share one key head.
    """

    part: str
    measure: str
    statement: str
    unit: str
    layers: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    group: int = 1

    @property
    def heads(self) -> int:
        return max((len(row) for row in self.values), default=0)

    @property
    def scale(self) -> tuple[float, float]:
        """The two ends of the colour ramp: from 0, where nothing lies below it, to the largest number."""
        seen = [value for row in self.values for value in row if math.isfinite(value)]
        low, high = min(seen, default=0.0), max(seen, default=0.0)
        return min(low, 0.0), high if high > min(low, 0.0) else min(low, 0.0) + 1.0

    def only(self, layers: Sequence[int]) -> "HeadTable":
        """The rows of these layers; all of them if none are given.

        Raises:
            ArgumentError: a layer that the table does not have.
        """
        for layer in layers:
            if layer not in self.layers:
                raise ArgumentError(f"layer must be one of {self.layers[0]} to {self.layers[-1]} in this model, got {layer}. Choose one of these.")
        chosen = [(layer, row) for layer, row in zip(self.layers, self.values, strict=True) if not layers or layer in layers]
        return replace(self, layers=tuple(layer for layer, _ in chosen), values=tuple(row for _, row in chosen))

    def share(self, value: float) -> float:
        """The position of a number on the colour ramp, from 0 to 1."""
        low, high = self.scale
        return (value - low) / (high - low)


def number(value: float, widest: float) -> str:
    """A number with the digits that the widest number of its table leaves room for; a dot for NaN.

    Example:
        >>> number(0.534, widest=1.0), number(12.34, widest=40.0), number(1234.5, widest=2000.0), number(float("nan"), 1.0)
        ('0.53', '12.3', '1234', '·')
    """
    if not math.isfinite(value):
        return "·"
    digits = 2 if abs(widest) < 10 else 1 if abs(widest) < 100 else 0
    return f"{value:.{digits}f}"
