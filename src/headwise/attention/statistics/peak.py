"""The key that a row looks at most."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Int, Tensor, Weights


def of_weights(weights: Weights, scene: Scene) -> Int[Tensor, "B H T"]:
    if weights.shape[-1] == 0:
        return torch.full(weights.shape[:3], -1, device=weights.device)
    peak = torch.where(scene.visible, weights, -1.0).argmax(-1)
    return peak.where(~weights.isnan().any(-1), -1)


class Peak(Running):
    """Remembers where the running maximum was met first."""

    def rescale(self, factor, shift):
        return

    def add(self, tile):
        best = torch.where(tile.mass > 0, tile.logs, -torch.inf).argmax(-1) + tile.keys.start
        self.sum = best if self.sum is None else best.where(tile.improved, self.sum)

    def finish(self, end):
        return self.sum.where(~end.norm.isnan(), -1)


ENTRY = Statistic(
    statement="The key with the largest weight: the first of equals; -1 where a row sees no key or a NaN.",
    formula="argmax_j w_j",
    of_weights=of_weights,
    running=Peak,
    dead=-1,
    dtype=torch.int64,
    unit="key",
)
