"""How spread out the attention of a query is."""

import torch

from headwise.attention.statistic import Accumulator, RowSoftmax, SoftmaxTile, Statistic, StatisticContext
from headwise.axes import Float, Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return -torch.special.xlogy(weights, weights).sum(-1)


class Entropy(Accumulator):
    """Accumulates Σ e^x·x with x = score - running maximum; log w = x + log norm then gives the entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.total: Tensor | None = None

    def rescale(self, factor: Float[Tensor, "n t"], shift: Float[Tensor, "n t"]) -> None:
        if self.sum is not None:
            self.sum.add_(self.total * shift.clamp(min=-1e30)).mul_(factor)
            self.total.mul_(factor)

    def add(self, tile: SoftmaxTile) -> None:
        part = torch.linalg.vecdot(tile.exp_scores, tile.shifted_scores)
        self.sum = part if self.sum is None else self.sum.add_(part)
        self.total = tile.total.clone() if self.total is None else self.total.add_(tile.total)

    def finish(self, rows: RowSoftmax) -> Tensor:
        norm = rows.norm.clamp(min=torch.finfo(rows.norm.dtype).tiny)  # where the sink has all weight, 0 · log 0 is 0
        return 0 - (self.total * norm.log() + self.sum) * rows.norm  # pyright: ignore[reportOperatorIssue]


ENTRY = Statistic(
    statement="How spread out the attention is: 0 for a single key, log n for n keys of equal weight.",
    formula="-Σ_j w_j · log w_j, over keys (without the sink, weights not renormalised)",
    of_weights=of_weights,
    accumulator=Entropy,
    unit="nats",
)
