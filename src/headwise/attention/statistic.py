"""What a statistic is: its definition on the weights, and how the same number is accumulated tile by tile without them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headwise.axes import Bool, Float, Int, Rows, Tensor, Weights


@dataclass(frozen=True, eq=False)
class StatisticContext:
    """What a definition may use in addition to the weights.

    Attributes:
        position: of each query.
        visible: True where a query may attend to a key.
        sink: the weight of each query's sink, or None.
        segments: the label of each key, or None.
    """

    position: Int[Tensor, "B T"]
    visible: Bool[Tensor, "B H T S"]
    sink: Rows | None
    segments: Int[Tensor, "B S"] | None


@dataclass(frozen=True, eq=False)
class SoftmaxTile:
    """One tile of the online softmax: n heads, t rows, s keys.

    Attributes:
        exp_scores: e^(score - running maximum); 0 where hidden.
        shifted_scores: score - running maximum; 0 where hidden.
        total: the sum of `exp_scores` over the keys.
        improved: True where the running maximum rose with this tile.
        keys: the keys of the tile.
        position: of each row.
        segments: a column for each label, 1 where a key has it.
    """

    exp_scores: Float[Tensor, "n t s"]
    shifted_scores: Float[Tensor, "n t s"]
    total: Float[Tensor, "n t"]
    improved: Bool[Tensor, "n t"]
    keys: slice
    position: Int[Tensor, "m t"]
    segments: Float[Tensor, "n s labels"] | None


@dataclass(frozen=True, eq=False)
class RowSoftmax:
    """The softmax of some rows after the last tile.

    Attributes:
        max_score: the largest score of a visible key.
        lse: including the sink.
        norm: e^(max_score - lse), which turns a sum of `exp_scores` into a sum of weights.
        sink: the sink's logit, or None.
    """

    max_score: Float[Tensor, "n t"]
    lse: Float[Tensor, "n t"]
    norm: Float[Tensor, "n t"]
    sink: Float[Tensor, "n t"] | None


class Accumulator:
    """Accumulates one statistic of some rows, tile by tile. Linear in the weights, unless a subclass overrides that."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None

    @property
    def started(self) -> bool:
        """Whether there is anything to finish: rows without visible keys have no tiles."""
        return self.sum is not None

    def rescale(self, factor: Float[Tensor, "n t"], shift: Float[Tensor, "n t"]) -> None:
        """The running maximum rose by -shift: multiply what was accumulated by `factor` = e^shift."""
        if self.sum is not None:
            self.sum.mul_(factor if self.sum.dim() == 2 else factor[..., None])

    def add(self, tile: SoftmaxTile) -> None:
        """Take one more tile into account."""
        part = self.contribution(tile)
        if part is not None:
            self.sum = part if self.sum is None else self.sum.add_(part)

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        """The sum over the keys of a tile, or None where none of them counts."""
        return None

    def finish(self, rows: RowSoftmax) -> Tensor:
        """The statistic of each row; called when `started`."""
        return self.sum * (rows.norm if self.sum.dim() == 2 else rows.norm[..., None])


@dataclass(frozen=True)
class Statistic:
    """One number for each query of each head.

    Attributes:
        statement: what it is, in a sentence.
        formula: w is the row of weights, p the query's position, j a key.
        of_weights: its definition, on materialised weights (hidden ones exactly 0) in float64.
        accumulator: accumulates it tile by tile; None where it takes a second pass over the keys.
        if_empty: its value in a row with no visible key; None where the definition gives it.
        opt_in: computed only when asked for by name, not as part of "all".
        needs_segments: uses the labels of the keys.
        unit: of the number.
        dtype: of the number; that of lse when None.
    """

    statement: str
    formula: str
    of_weights: Callable[[Weights, StatisticContext], Tensor]
    accumulator: Callable[[], Accumulator] | None
    if_empty: float | None = float("nan")
    opt_in: bool = False
    needs_segments: bool = False
    unit: str = ""
    dtype: torch.dtype | None = None


def label_count(segments: Int[Tensor, "B S"]) -> int:
    """The number of labels: one more than the largest."""
    return max(int(segments.max()) + 1, 0) if segments.numel() else 0


def weight_at(weights: Weights, key: Int[Tensor, "B T"]) -> Rows:
    """The weight of each query on one key of its own; 0 where there is no such key."""
    exists = (key >= 0) & (key < weights.shape[-1])
    index = key.clamp(0, max(weights.shape[-1] - 1, 0))[:, None, :, None].expand(*weights.shape[:3], 1)
    if weights.shape[-1] == 0:
        return weights.sum(-1)
    return weights.gather(-1, index)[..., 0] * exists[:, None]


class WeightAtOffset(Accumulator):
    """The weight on one key of each row: the one `offset` tokens after the row's own position."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        column = tile.position + self.offset - tile.keys.start
        width = tile.keys.stop - tile.keys.start
        exists = (column >= 0) & (column < width)
        if not bool(exists.any()):
            return None
        index = column.clamp(0, width - 1).expand(tile.exp_scores.shape[:2])
        return tile.exp_scores.gather(-1, index[..., None])[..., 0].where(exists, 0)
