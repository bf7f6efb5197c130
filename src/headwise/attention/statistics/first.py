"""The weight on the first key, which decoders often use as an attention sink (Xiao et al. 2023)."""

from headwise.attention.statistic import Accumulator, SoftmaxTile, Statistic, StatisticContext
from headwise.axes import Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    return weights[..., 0] if weights.shape[-1] else weights.sum(-1)


class First(Accumulator):
    """The first column of the first tile."""

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        return tile.exp_scores[..., 0].clone() if tile.keys.start == 0 else None


ENTRY = Statistic(statement="The weight on the first key.", formula="w_0", of_weights=of_weights, accumulator=First)
