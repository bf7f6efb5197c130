"""The direct effect of induction heads on the repeated token's logit, and the loss with them ablated, on repeated random text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import torch

from headwise.analysis.ablation.direct_effect import direct_effects, readout
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.ablation.exact_ablation import zero_ablation
from headwise.analysis.ablation.losses import NO_LABEL, CrossEntropy, next_tokens, real_tokens
from headwise.analysis.ablation.partial_forward import replace_z
from headwise.analysis.roles.catalog._repeats import Repeat, repeats
from headwise.analysis.roles.corpus import Corpus
from headwise.axes import Bool, Float, Int, Tensor
from headwise.errors import WritesRefused

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText
    from headwise.experiments.study import Study

Head = tuple[int, int]
CONTROLS = 5  # random draws of the same number of other heads


@dataclass(frozen=True, eq=False)
class CopyingEffects:
    """The effects of the chosen heads on each text.

    Attributes:
        direct: each head's direct effect on the centred logit of the next token of the repetition; None if direct effects on logits are not defined.
        second: the loss on the repetition: of the unchanged model, with the chosen heads ablated, and with as many others ablated, mean over draws.
        first: the same on the first occurrence.
        counts: tokens of the repetition that the loss is a mean over.
        why: the reason if `direct` is None.
    """

    direct: Float[Tensor, "n L H"] | None
    second: Float[Tensor, "n three"]
    first: Float[Tensor, "n three"]
    counts: Float[Tensor, " n"]
    why: str = ""


def copying_effects(study: "Study", chosen: Sequence[Head], texts: int) -> CopyingEffects:
    """Measure the effects of the chosen heads on new texts, not used to choose them."""
    evaluator = Evaluator(study.model, "next", study.part, study.seed)
    made = list(repeats(study.model, Corpus(limit=texts, seed=study.seed + 1)))
    plans: Tensor | None = None
    rows: list[tuple[Tensor, Tensor]] = []
    direct: list[Tensor] = []
    counts, why = [], ""
    for number, repeat in enumerate(made, start=1):
        passage = evaluator.open(repeat.given)
        evaluator.learn(passage)
        plans = _plans(passage, chosen, study.seed) if plans is None else plans
        losses = [_of(passage, places) for places in (repeat.second[1:-1], repeat.first[1:-1])]
        rows.append(_without(passage, plans, losses))
        counts.append(float(losses[0].tokens))
        try:
            direct += [] if why else [_direct(passage, repeat)]
        except WritesRefused as error:
            why = str(error)
        study.progress("repeated random text", number, len(made))
    forward, first = (torch.stack([torch.stack([row[side][0], row[side][1], row[side][2:].mean()]) for row in rows]) for side in (0, 1))
    return CopyingEffects(None if why else torch.stack(direct), forward, first, torch.tensor(counts), why)


def others(heads: Sequence[int], chosen: Sequence[Head], random: Random) -> list[Head]:
    """Draw for each chosen head another one of its layer, or of the nearest layer that has one left.

    Args:
        heads: the number of heads of each layer.

    Example:
        >>> sorted(others([2, 2], [(0, 1), (1, 0)], Random(0)))
        [(0, 0), (1, 1)]
    """
    left = {layer: [head for head in range(count) if (layer, head) not in set(chosen)] for layer, count in enumerate(heads)}
    found = []
    for layer, _ in chosen:
        near = min((other for other in left if left[other]), key=lambda other: (abs(other - layer), other), default=None)
        if near is not None:
            found.append((near, left[near].pop(random.randrange(len(left[near])))))
    return found


def _plans(passage: "EvalText", chosen: Sequence[Head], seed: int) -> Bool[Tensor, "N L H"]:
    """The sets of heads to ablate: none; the chosen heads; then as many others, several times."""
    heads = [place.heads for place in passage.places]
    random = Random(seed)
    choices = [[], list(chosen), *(others(heads, chosen, random) for _ in range(CONTROLS))]
    found = torch.zeros(len(choices), len(heads), max(heads), dtype=torch.bool)
    for plan, some in zip(found, choices, strict=True):
        for layer, head in some:
            plan[layer, head] = True
    return found


def _of(passage: "EvalText", places: Int[Tensor, " n"]) -> CrossEntropy:
    """The loss on the tokens after these positions only."""
    forward = passage.forward
    labels = next_tokens(forward, real_tokens(forward, forward.cache.outputs["logits"]))
    kept = torch.full_like(labels, NO_LABEL)
    kept[:, places] = labels[:, places]
    return CrossEntropy(forward, kept)


@torch.no_grad()
def _without(passage: "EvalText", plans: Bool[Tensor, "N L H"], losses: Sequence[CrossEntropy]) -> tuple[Tensor, Tensor]:
    """Each loss with the heads of each plan ablated."""
    found = [[loss(passage.forward.cache.outputs, 1)] for loss in losses]
    layers = {place.index: layer for layer, place in enumerate(passage.places)}
    for some in plans[1:].split(passage.at_once):
        touched = [place.index for layer, place in enumerate(passage.places) if bool(some[:, layer].any())]

        def change(call: int, read: Tensor, some: Tensor = some) -> Tensor:
            return replace_z(some[:, layers[call], : read.shape[2]], zero_ablation(passage, call), read)

        outputs = passage.forward.outputs(touched, change, len(some))
        for mine, loss in zip(found, losses, strict=True):
            mine.append(loss(outputs, len(some)))
    return torch.cat(found[0]).double().cpu(), torch.cat(found[1]).double().cpu()


@torch.no_grad()
def _direct(passage: "EvalText", repeat: Repeat) -> Float[Tensor, "L H"]:
    """Each head's direct effect on the centred logit of the next token, mean over the repetition."""
    read = readout(passage.forward)
    read = replace(read, unembedding=read.unembedding - read.unembedding.mean(0), bias=None if read.bias is None else read.bias - read.bias.mean())
    tokens = torch.roll(repeat.given, -1, 1)
    rows = [direct_effects(passage, read, place, tokens)[0, repeat.second[1:-1]].mean(0).double() for place in passage.places]
    most = max(map(len, rows))
    return torch.stack([torch.cat([row, row.new_full((most - len(row),), torch.nan)]) for row in rows])
