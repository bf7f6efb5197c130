"""How far a row looks."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    key = torch.arange(weights.shape[-1], device=weights.device)
    away = (scene.position[:, None, :, None] - key).abs()
    return (weights * away).sum(-1)


class Distance(Running):
    """Where a tile lies on one side of its rows, Σ mass·|p - j| is a plain moment, taken from the tile's first key."""

    def contribution(self, tile):
        start, stop = tile.keys.start, tile.keys.stop
        near = (tile.position - start).to(tile.mass.dtype)
        ramp = torch.arange(stop - start, device=tile.mass.device, dtype=tile.mass.dtype)
        lowest, highest = (int(end) for end in tile.position.aminmax())
        if lowest < stop - 1 and highest > start:
            return (tile.mass * (near[..., None] - ramp).abs()).sum(-1)
        moment = tile.mass @ ramp
        return near * tile.total - moment if lowest >= stop - 1 else moment - near * tile.total


ENTRY = Statistic(
    statement="The mean distance between the query's position and the keys, weighted.",
    formula="Σ_j w_j · |p - j|",
    of_weights=of_weights,
    running=Distance,
    unit="tokens",
)
