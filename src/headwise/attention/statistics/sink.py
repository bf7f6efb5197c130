"""The weight that goes to no key at all."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    if scene.sink is not None:
        return scene.sink
    return torch.where(scene.visible.any(-1), weights.sum(-1) * 0, torch.nan)


class Sink(Running):
    """Known once the row's sum is."""

    started = True  # pyright: ignore[reportAssignmentType]

    def finish(self, end):
        if end.sink is not None:
            return (end.sink - end.lse).exp()
        return torch.zeros_like(end.lse).where(end.lse > -torch.inf, torch.nan)


ENTRY = Statistic(
    statement="The weight of the sink: what the row gives to no key; 0 without a sink.",
    formula="e^(sink - lse), so that Σ_j w_j + sink = 1",
    of_weights=of_weights,
    running=Sink,
    dead=None,
)
