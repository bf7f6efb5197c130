"""The participation ratio: the effective number of keys of a query."""

import torch

from headwise.attention.statistic import Accumulator, RowSoftmax, SoftmaxTile, Statistic, StatisticContext
from headwise.axes import Float, Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return 1 / weights.square().sum(-1)


class SumOfSquares(Accumulator):
    """Accumulates Σ e^2x with x = score - running maximum, which scales with the square of the factor."""

    def rescale(self, factor: Float[Tensor, "n t"], shift: Float[Tensor, "n t"]) -> None:
        super().rescale(factor.square(), shift)

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        return torch.linalg.vecdot(tile.exp_scores, tile.exp_scores)

    def finish(self, rows: RowSoftmax) -> Tensor:
        return 1 / super().finish(rows) / rows.norm


ENTRY = Statistic(
    statement="The effective number of keys: n for n keys of equal weight.",
    formula="1 / Σ_j w_j²",
    of_weights=of_weights,
    accumulator=SumOfSquares,
    unit="keys",
)
