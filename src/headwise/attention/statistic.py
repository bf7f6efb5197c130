"""What a statistic is: a definition on the weights, and a way to gather it tile by tile without them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headwise.axes import Bool, Float, Int, Rows, Tensor, Weights


@dataclass(frozen=True, eq=False)
class Scene:
    """What a definition may look at beside the weights."""

    position: Int[Tensor, "B T"]
    visible: Bool[Tensor, "B H T S"]
    sink: Rows | None
    segments: Int[Tensor, "B S"] | None


@dataclass(frozen=True, eq=False)
class Tile:
    """Scores of some rows against some keys while attention is being computed: n heads, t rows, s keys at once.

    Attributes:
        mass: e^(score - running maximum); 0 where hidden.
        logs: score - running maximum; 0 where hidden.
        total: the sum of `mass` over the keys.
        keys: which keys these are.
        position: of each row.
        segments: one column a label, 1 where a key carries it.
    """

    mass: Float[Tensor, "n t s"]
    logs: Float[Tensor, "n t s"]
    total: Float[Tensor, "n t"]
    improved: Bool[Tensor, "n t"]
    keys: slice
    position: Int[Tensor, "m t"]
    segments: Float[Tensor, "n s labels"] | None


@dataclass(frozen=True, eq=False)
class End:
    """What is known of the rows once every tile has been seen.

    Attributes:
        highest: the largest score of a visible key.
        lse: with the sink.
        norm: e^(highest - lse): turns gathered mass into weight.
        sink: the sink's logit.
    """

    highest: Float[Tensor, "n t"]
    lse: Float[Tensor, "n t"]
    norm: Float[Tensor, "n t"]
    sink: Float[Tensor, "n t"] | None


class Running:
    """Gathers one statistic for some rows, tile by tile. Linear in the weights, unless a subclass says otherwise."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None

    @property
    def started(self) -> bool:
        """Whether there is anything to finish: rows that see no key have no tiles."""
        return self.sum is not None

    def rescale(self, factor: Float[Tensor, "n t"], shift: Float[Tensor, "n t"]) -> None:
        """The running maximum rose by -shift: what was gathered is worth `factor` = e^shift of what it was."""
        if self.sum is not None:
            self.sum.mul_(factor if self.sum.dim() == 2 else factor[..., None])

    def add(self, tile: Tile) -> None:
        part = self.contribution(tile)
        if part is not None:
            self.sum = part if self.sum is None else self.sum.add_(part)

    def contribution(self, tile: Tile) -> Tensor | None:
        """The sum over the tile's keys, or None where it has none that count."""
        return None

    def finish(self, end: End) -> Tensor:
        """The number of each row; called when `started`."""
        return self.sum * (end.norm if self.sum.dim() == 2 else end.norm[..., None])


@dataclass(frozen=True)
class Statistic:
    """One number for each query of each head.

    Attributes:
        statement: what it tells, in a sentence.
        formula: w is the row of weights, p the query's position, j a key.
        of_weights: its definition, from materialised weights (hidden ones exactly 0) in float64.
        running: gathers it tile by tile; None where it takes a second pass over the keys.
        dead: its value in a row that sees no key; None where the definition itself says.
        asked_by_name: not part of "all".
        needs_segments: reads the labels of the keys.
        unit: of the number.
        dtype: of the number; that of lse when None.
    """

    statement: str
    formula: str
    of_weights: Callable[[Weights, Scene], Tensor]
    running: Callable[[], Running] | None
    dead: float | None = float("nan")
    asked_by_name: bool = False
    needs_segments: bool = False
    unit: str = ""
    dtype: torch.dtype | None = None


def labels(segments: Int[Tensor, "B S"]) -> int:
    """How many spans the labels name."""
    return max(int(segments.max()) + 1, 0) if segments.numel() else 0


def weight_at(weights: Weights, key: Int[Tensor, "B T"]) -> Rows:
    """The weight that each row gives to one key of its own; 0 where there is no such key."""
    there = (key >= 0) & (key < weights.shape[-1])
    index = key.clamp(0, max(weights.shape[-1] - 1, 0))[:, None, :, None].expand(*weights.shape[:3], 1)
    if weights.shape[-1] == 0:
        return weights.sum(-1)
    return weights.gather(-1, index)[..., 0] * there[:, None]


class MassAt(Running):
    """The mass on one key a row: the key `shift` places after the row's own position."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift

    def contribution(self, tile: Tile) -> Tensor | None:
        column = tile.position + self.shift - tile.keys.start
        width = tile.keys.stop - tile.keys.start
        there = (column >= 0) & (column < width)
        if not bool(there.any()):
            return None
        index = column.clamp(0, width - 1).expand(tile.mass.shape[:2])
        return tile.mass.gather(-1, index[..., None])[..., 0].where(there, 0)
