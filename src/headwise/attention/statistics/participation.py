"""How many keys a row uses, in effect."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return 1 / weights.square().sum(-1)


class Squares(Running):
    """Gathers Σ mass², which scales with the square of the factor."""

    def rescale(self, factor, shift):
        super().rescale(factor.square(), shift)

    def contribution(self, tile):
        return torch.linalg.vecdot(tile.mass, tile.mass)

    def finish(self, end):
        return 1 / super().finish(end) / end.norm


ENTRY = Statistic(
    statement="How many keys the row uses in effect: n when n keys share it evenly.",
    formula="1 / Σ_j w_j²",
    of_weights=of_weights,
    running=Squares,
    unit="keys",
)
