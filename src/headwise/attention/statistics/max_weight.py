"""The largest weight of a row."""

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return weights.amax(-1) if weights.shape[-1] else weights.sum(-1)


class MaxWeight(Running):
    """The running maximum itself."""

    started = True  # pyright: ignore[reportAssignmentType]

    def finish(self, end):
        return end.norm.clone()


ENTRY = Statistic(
    statement="The largest weight of the row.",
    formula="max_j w_j",
    of_weights=of_weights,
    running=MaxWeight,
)
