"""Exact ablation: the loss when a head says something else, in the place where it says it: before W_O.

Slicing what comes out of W_O silences no head: every number of it is of all heads.

References: Michel et al. 2019, section 3 (zero); Wang et al. 2022, section 2 (mean); Chan et al. 2022 (resample).
"""

from collections.abc import Callable, Sequence

import torch

from headwise.analysis.ablation.eval_text import EvalText, real_queries
from headwise.analysis.ablation.partial_forward import replace_z
from headwise.axes import Bool, Float, Tensor
from headwise.models.runs.places import Place

ABLATIONS = ("zero", "mean", "resample")
Replacement = Callable[[EvalText, int], Float[Tensor, "#B #T H E"]]  # what the heads of a call say when they are silenced


@torch.no_grad()
def ablated_losses(passage: EvalText, place: Place, words: Float[Tensor, "#B #T H E"], heads: Sequence[int] | None = None) -> Float[Tensor, " n"]:
    """The loss with each of these heads of one layer silenced, one at a time.

    Args:
        words: what they say instead.
        heads: every head of the layer when absent.
    """
    wanted = list(range(place.heads)) if heads is None else list(heads)
    found = []
    for start in range(0, len(wanted), passage.at_once):
        some = wanted[start : start + passage.at_once]
        chosen = torch.zeros(len(some), place.heads, dtype=torch.bool)
        chosen[range(len(some)), some] = True
        outputs = passage.forward.outputs([place.index], lambda call, read, chosen=chosen: replace_z(chosen, words, read), len(some))
        found.append(passage.loss(outputs, len(some)))
    return torch.cat(found).double().cpu()


@torch.no_grad()
def joint_ablation_losses(passage: EvalText, silenced: Bool[Tensor, "N L H"], words: Replacement) -> Float[Tensor, " N"]:
    """The loss with many heads silenced at once, for each of N choices of them."""
    places = {place.index: layer for layer, place in enumerate(passage.places)}
    found = []
    for some in silenced.split(passage.at_once):
        touched = [place.index for layer, place in enumerate(passage.places) if bool(some[:, layer].any())]
        if not touched:
            found.append(torch.full((len(some),), passage.base))
            continue

        def change(call: int, read: Tensor, some: Tensor = some) -> Tensor:
            return replace_z(some[:, places[call], : read.shape[2]], words(passage, call), read)

        found.append(passage.loss(passage.forward.outputs(touched, change, len(some)), len(some)))
    return torch.cat(found).double().cpu()


def zero_ablation(passage: EvalText, call: int) -> Float[Tensor, "1 1 H E"]:
    """Silence."""
    return torch.zeros_like(passage.forward.cache.wo_inputs[call][:1, :1])


class MeanAblation:
    """Mean ablation: each head's mean z over all tokens of some texts, padding excluded."""

    def __init__(self) -> None:
        self.sums: dict[int, Tensor] = {}
        self.tokens: dict[int, int] = {}

    def see(self, passage: EvalText) -> None:
        """Include one more text in the means."""
        for place in passage.places:
            z = passage.forward.cache.wo_inputs[place.index]
            real = real_queries(passage, place).to(z.device)
            self.sums[place.index] = self.sums.get(place.index, torch.zeros(())) + z[real].double().sum(0)
            self.tokens[place.index] = self.tokens.get(place.index, 0) + int(real.sum())

    def __call__(self, passage: EvalText, call: int) -> Float[Tensor, "1 1 H E"]:
        return (self.sums[call] / self.tokens[call])[None, None].to(passage.forward.cache.wo_inputs[call])


def resample_ablation(donor: EvalText) -> Replacement:
    """Resample ablation: each token gets the z of the token at the same position of another text, which is repeated where it is shorter.

    Positions count real tokens; the donor is the first text of its batch.
    """

    def replacement(passage: EvalText, call: int) -> Float[Tensor, "B T H E"]:
        place = next(place for place in passage.places if place.index == call)
        z = passage.forward.cache.wo_inputs[call]
        others = donor.forward.cache.wo_inputs[call][0]
        others = others[real_queries(donor, place)[0].to(others.device)]
        positions = (real_queries(passage, place).long().cumsum(1) - 1).clamp(min=0) % len(others)
        return others[positions.to(others.device)].to(z)

    return replacement
