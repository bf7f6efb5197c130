"""The weight of the sink."""

import torch

from headwise.attention.statistic import Accumulator, RowSoftmax, Statistic, StatisticContext
from headwise.axes import Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    if context.sink is not None:
        return context.sink
    return torch.where(context.visible.any(-1), weights.sum(-1) * 0, torch.nan)


class Sink(Accumulator):
    """Computed from lse, once that is known."""

    @property
    def started(self) -> bool:
        return True

    def finish(self, rows: RowSoftmax) -> Tensor:
        if rows.sink is not None:
            return (rows.sink - rows.lse).exp()
        return torch.zeros_like(rows.lse).where(rows.lse > -torch.inf, torch.nan)


ENTRY = Statistic(
    statement="The weight of the attention sink, which belongs to no key; 0 without one.",
    formula="e^(sink - lse), so that Σ_j w_j + sink = 1",
    of_weights=of_weights,
    accumulator=Sink,
    if_empty=None,
)
