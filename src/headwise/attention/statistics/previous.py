"""The weight on the token before: the mark of a previous-token head."""

from functools import partial

from headwise.attention.statistic import MassAt, Scene, Statistic, weight_at
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return weight_at(weights, scene.position - 1)


ENTRY = Statistic(
    statement="The weight on the key just before the query's position; 0 where there is no such key.",
    formula="w_j at j = p - 1",
    of_weights=of_weights,
    running=partial(MassAt, -1),
)
