"""The attention that a key receives from all queries."""

from headwise.attention.statistic import Statistic, StatisticContext
from headwise.axes import Float, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Float[Tensor, "B H S"]:
    return weights.sum(-2)


ENTRY = Statistic(
    statement="The attention that a key receives from all queries: the sum of its column.",
    formula="Σ_i w_ij",
    of_weights=of_weights,
    accumulator=None,
    if_empty=None,
    opt_in=True,
    unit="rows",
)
