"""The weight on the query's own token."""

from functools import partial

from headwise.attention.statistic import MassAt, Scene, Statistic, weight_at
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return weight_at(weights, scene.position)


ENTRY = Statistic(
    statement="The weight on the key at the query's own position; 0 where there is no such key.",
    formula="w_j at j = p",
    of_weights=of_weights,
    running=partial(MassAt, 0),
)
