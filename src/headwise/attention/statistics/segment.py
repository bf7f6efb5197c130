"""The weight on labelled spans of keys: sentences, speakers, documents, images."""

import torch

from headwise.attention.statistic import Running, Scene, Statistic, labels
from headwise.axes import Float, Tensor, Weights


def of_weights(weights: Weights, scene: Scene) -> Float[Tensor, "B H T labels"]:
    member = scene.segments[..., None] == torch.arange(labels(scene.segments), device=weights.device)  # pyright: ignore[reportArgumentType]
    return torch.einsum("bhts,bsl->bhtl", weights, member.to(weights.dtype))


class Segment(Running):
    """Mass times membership: one small matrix product a tile."""

    def contribution(self, tile):
        return tile.mass @ tile.segments  # pyright: ignore[reportOperatorIssue]


ENTRY = Statistic(
    statement="The weight on each labelled span of keys; keys with a negative label belong to none.",
    formula="Σ w_j over the keys j of a span, for each span",
    of_weights=of_weights,
    running=Segment,
    asked_by_name=True,
    needs_segments=True,
)
