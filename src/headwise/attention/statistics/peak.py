"""The key with the largest weight."""

import torch

from headwise.attention.statistic import Accumulator, RowSoftmax, SoftmaxTile, Statistic, StatisticContext
from headwise.axes import Float, Int, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Int[Tensor, "B H T"]:
    if weights.shape[-1] == 0:
        return torch.full(weights.shape[:3], -1, device=weights.device)
    peak = torch.where(context.visible, weights, -1.0).argmax(-1)
    return peak.where(~weights.isnan().any(-1), -1)


class Peak(Accumulator):
    """The key at which the running maximum was reached first."""

    def rescale(self, factor: Float[Tensor, "n t"], shift: Float[Tensor, "n t"]) -> None:
        return

    def add(self, tile: SoftmaxTile) -> None:
        best = torch.where(tile.exp_scores > 0, tile.shifted_scores, -torch.inf).argmax(-1) + tile.keys.start
        self.sum = best if self.sum is None else best.where(tile.improved, self.sum)

    def finish(self, rows: RowSoftmax) -> Tensor:
        return self.sum.where(~rows.norm.isnan(), -1)


ENTRY = Statistic(
    statement="The key with the largest weight, the first of equals; -1 in a row with no visible key or with a NaN.",
    formula="argmax_j w_j",
    of_weights=of_weights,
    accumulator=Peak,
    if_empty=-1,
    dtype=torch.int64,
    unit="key",
)
