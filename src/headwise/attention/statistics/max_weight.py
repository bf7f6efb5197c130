"""The largest weight of a query."""

from headwise.attention.statistic import Accumulator, RowSoftmax, Statistic, StatisticContext
from headwise.axes import Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return weights.amax(-1) if weights.shape[-1] else weights.sum(-1)


class MaxWeight(Accumulator):
    """The running maximum itself."""

    @property
    def started(self) -> bool:
        return True

    def finish(self, rows: RowSoftmax) -> Tensor:
        return rows.norm.clone()


ENTRY = Statistic(
    statement="The largest weight of the query.",
    formula="max_j w_j",
    of_weights=of_weights,
    accumulator=MaxWeight,
)
