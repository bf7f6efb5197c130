"""The weight on the first key, where decoders tend to park attention that they have no use for (Xiao et al. 2023)."""

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return weights[..., 0] if weights.shape[-1] else weights.sum(-1)


class First(Running):
    """The first column of the first tile."""

    def contribution(self, tile):
        return tile.mass[..., 0].clone() if tile.keys.start == 0 else None


ENTRY = Statistic(statement="The weight on the first key.", formula="w_0", of_weights=of_weights, running=First)
