"""The weight on the previous token, by which previous-token heads are found."""

from functools import partial

from headwise.attention.statistic import Statistic, StatisticContext, WeightAtOffset, weight_at
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return weight_at(weights, context.position - 1)


ENTRY = Statistic(
    statement="The weight on the key before the query's position; 0 where there is none.",
    formula="w_j at j = p - 1",
    of_weights=of_weights,
    accumulator=partial(WeightAtOffset, -1),
)
