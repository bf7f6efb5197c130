"""The distance over which a query attends."""

import torch

from headwise.attention.statistic import Accumulator, SoftmaxTile, Statistic, StatisticContext
from headwise.axes import Rows, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Rows:
    key = torch.arange(weights.shape[-1], device=weights.device)
    distance = (context.position[:, None, :, None] - key).abs()
    return (weights * distance).sum(-1)


class Distance(Accumulator):
    """Accumulates Σ e^x·|p - j|; where all keys of a tile are on one side of the rows, from the first moment of e^x."""

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        start, stop = tile.keys.start, tile.keys.stop
        from_start = (tile.position - start).to(tile.exp_scores.dtype)
        ramp = torch.arange(stop - start, device=tile.exp_scores.device, dtype=tile.exp_scores.dtype)
        lowest, highest = (int(end) for end in tile.position.aminmax())
        if lowest < stop - 1 and highest > start:
            return (tile.exp_scores * (from_start[..., None] - ramp).abs()).sum(-1)
        moment = tile.exp_scores @ ramp
        return from_start * tile.total - moment if lowest >= stop - 1 else moment - from_start * tile.total


ENTRY = Statistic(
    statement="The mean distance between the query's position and the keys, weighted by attention.",
    formula="Σ_j w_j · |p - j|",
    of_weights=of_weights,
    accumulator=Distance,
    unit="tokens",
)
