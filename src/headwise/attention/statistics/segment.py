"""The weight on labelled spans of keys: sentences, speakers, documents, images."""

import torch

from headwise.attention.statistic import Accumulator, SoftmaxTile, Statistic, StatisticContext, label_count
from headwise.axes import Float, Tensor, Weights


def of_weights(weights: Weights, context: StatisticContext) -> Float[Tensor, "B H T labels"]:
    member = context.segments[..., None] == torch.arange(label_count(context.segments), device=weights.device)  # pyright: ignore[reportArgumentType]
    return torch.einsum("bhts,bsl->bhtl", weights, member.to(weights.dtype))


class Segment(Accumulator):
    """Accumulates the product of e^x with the membership of the keys."""

    def contribution(self, tile: SoftmaxTile) -> Tensor | None:
        return tile.exp_scores @ tile.segments  # pyright: ignore[reportOperatorIssue]


ENTRY = Statistic(
    statement="The weight on each labelled span of keys; keys with a negative label belong to none of them.",
    formula="Σ w_j over the keys j of a span, for each span",
    of_weights=of_weights,
    accumulator=Segment,
    opt_in=True,
    needs_segments=True,
)
