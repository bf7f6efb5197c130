"""The weight on the query's own token."""

from functools import partial

from headwise.attention.statistic import Statistic, StatisticContext, WeightAtOffset, weight_at
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return weight_at(weights, context.position)


ENTRY = Statistic(
    statement="The weight on the key at the query's own position; 0 where there is none.",
    formula="w_j at j = p",
    of_weights=of_weights,
    accumulator=partial(WeightAtOffset, 0),
)
