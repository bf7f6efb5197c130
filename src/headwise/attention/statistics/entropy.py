"""How spread out a row is."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic
from headwise.axes import Rows, Tensor, Weights


def of_weights(weights: Weights, scene: Scene) -> Rows:
    return -torch.special.xlogy(weights, weights).sum(-1)


class Entropy(Running):
    """Gathers Σ e^x·x with x = score - running maximum; log w = x + log norm then gives the entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.total: Tensor | None = None

    def rescale(self, factor, shift):
        if self.sum is not None:
            self.sum.add_(self.total * shift.clamp(min=-1e30)).mul_(factor)
            self.total.mul_(factor)

    def add(self, tile):
        part = torch.linalg.vecdot(tile.mass, tile.logs)
        self.sum = part if self.sum is None else self.sum.add_(part)
        self.total = tile.total.clone() if self.total is None else self.total.add_(tile.total)

    def finish(self, end):
        norm = end.norm.clamp(min=torch.finfo(end.norm.dtype).tiny)  # where the sink takes all, 0 · log 0 is 0
        return 0 - (self.total * norm.log() + self.sum) * end.norm  # pyright: ignore[reportOperatorIssue]


ENTRY = Statistic(
    statement="How spread out the row is: 0 on a single key, log n evenly over n keys.",
    formula="-Σ_j w_j · log w_j, over keys (the sink left out, the weights as they are)",
    of_weights=of_weights,
    running=Entropy,
    unit="nats",
)
