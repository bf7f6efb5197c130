"""Published code sets slices of what comes out of W_O to 0 and calls them heads: how far is that from silencing the head?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.ablation.exact_ablation import ablated_losses, zero_ablation
from headwise.axes import Float, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import mean_over_texts, side_of, texts_needed
from headwise.experiments.measurements.output_slicing import losses_sliced
from headwise.experiments.measurements.write_summary import WriteSummary, write_summary
from headwise.experiments.number_text import between, percent, times

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 4  # texts
HEADS, TEXTS = 48, 4  # whose effect on the output is measured both ways
HALF, MOST = 0.5, 0.9  # of what the slice removes: less is the head's than of others, or nearly all


@dataclass(frozen=True, eq=False)
class SliceEffects:
    """What the model's output does when heads are silenced, and when slices are cut, in the order of `heads`."""

    heads: tuple[tuple[int, int], ...]
    right: Float[Tensor, "n N"]
    wrong: Float[Tensor, "n N"]
    measure: str


def run(study: "Study") -> Card:
    """What is in the slice, and what cutting it does."""
    few = study.too_few_texts(FEWEST, "what is in a slice of the output")
    if few is not None:
        return few
    told: dict[str, Any] = {"texts": len(study.texts), "tokens": study.token_count}
    found = write_summary(study)
    if bool(found.removed.isnan().all()):
        return Card("inconclusive", "W_O gives another number of numbers than the heads say, so that no slice of its output looks like a head.", **told)
    if all(int((~layer.isnan()).sum()) < 2 for layer in found.removed[0]):
        return Card("inconclusive", "Every layer has one head: the slice is the whole output, and the head too.", **told)
    effects = _effects(study)
    numbers = _numbers(found, effects, study.seed)
    own = numbers["own"]
    verdict = (
        "cut"
        if side_of(own, HALF) == "below"
        else "kept"
        if side_of(own, MOST) == "above"
        else "corrected"
        if side_of(own, HALF) == "above"
        else "inconclusive"
    )
    says, correction = _summary(numbers, effects), "Mostly." if verdict == "corrected" else ""
    if verdict == "inconclusive":
        says = f"{says} Too few texts: about {texts_needed(own, HALF, len(study.texts))} would be needed."
    return Card(verdict, says, numbers, _plot(effects), correction, measure=effects.measure, **told)


def _effects(study: "Study") -> SliceEffects:
    """Both effects of some heads, drawn evenly over the layers, on some texts."""
    measure = "cosine" if study.loss == "cosine" else "kl"
    opener = Evaluator(study.model, measure, study.part, study.seed)
    heads = _drawn(study)
    right, wrong = [], []
    texts = study.texts[:TEXTS]
    for number, text in enumerate(texts):
        passage = study.passage(number) if measure == study.loss else opener.open(text)
        opener.learn(passage)
        layers = sorted({layer for layer, _ in heads})
        by_layer = [(passage.places[layer], [head for mine, head in heads if mine == layer]) for layer in layers]
        right.append(torch.cat([ablated_losses(passage, place, zero_ablation(passage, place.index), some) for place, some in by_layer]))
        wrong.append(torch.cat([losses_sliced(passage, place, some) for place, some in by_layer]))
        study.progress("slices and heads", number + 1, len(texts))
    return SliceEffects(tuple(heads), torch.stack(right), torch.stack(wrong), measure)


def _drawn(study: "Study") -> list[tuple[int, int]]:
    """As many heads of each layer, at random."""
    random = torch.Generator().manual_seed(study.seed)
    places = study.passage(0).places
    each = max(1, HEADS // len(places))
    layers = range(0, len(places), max(1, -(-len(places) // HEADS)))
    return [(layer, head) for layer in layers for head in sorted(torch.randperm(places[layer].heads, generator=random)[:each].tolist())]


def _numbers(found: WriteSummary, effects: SliceEffects, seed: int) -> dict[str, Number]:
    tokens = found.tokens
    own = (found.own / found.removed).nanmean((1, 2))
    alike = (found.alike / tokens[:, None, None]).nanmean((1, 2))
    heads = (~found.removed[0].isnan()).sum(-1).double()
    right, wrong = effects.right.mean(0).clamp(min=1e-12), effects.wrong.mean(0).clamp(min=1e-12)
    apart = (wrong / right).log().abs().exp()
    order = _ranks_agree(right, wrong)
    return {
        "own": mean_over_texts(own, tokens, seed=seed, means="of what setting slice h to 0 removes, how much is head h's; mean over heads"),
        "equal": Number(float((1 / heads[heads > 0]).mean()), "1 / H: what it would be if a slice held as much of every head"),
        "cosine": mean_over_texts(alike, tokens, seed=seed, means="between what the slice removes and what the head writes; mean over tokens and heads"),
        "factor": Number(float(apart.median()), f"by how much the two effects on the output differ, median of {len(apart)} heads", *_quartiles(apart)),
        "factor, most": Number(float(apart.max()), "the largest of them; highest of all, so it flatters"),
        "order": Number(order, "rank correlation over these heads of the slice's effect with the head's"),
    }


def _quartiles(apart: Float[Tensor, " N"]) -> tuple[float, float]:
    """The interval of the median over heads: heads drawn again and again."""
    draws = torch.randint(len(apart), (1000, len(apart)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(apart[draws].median(1).values, torch.tensor([0.025, 0.975], dtype=apart.dtype)).tolist()
    return low, high


def _ranks_agree(one: Float[Tensor, " N"], other: Float[Tensor, " N"]) -> float:
    """Spearman's rank correlation."""
    ranks = torch.stack([x.argsort().argsort().double() for x in (one, other)])
    return float(torch.corrcoef(ranks)[0, 1]) if len(one) > 2 else float("nan")


def _summary(numbers: dict[str, Number], effects: SliceEffects) -> str:
    own, equal, factor = numbers["own"], numbers["equal"], numbers["factor"]
    return (
        f"Of what setting the h-th slice of W_O's output to 0 removes, {percent(own.value)} is head h's ({between(own, percent)}); a slice that holds as much "
        f"of every head would have {percent(equal.value)}. Its effect on the model's output differs from that of silencing the head by {times(factor.value)} "
        f"in the median of {len(effects.heads)} heads, by {times(numbers['factor, most'].value)} at most; the rank correlation of the two is "
        f"{numbers['order'].value:.2f}."
    )


def _plot(effects: SliceEffects) -> Plot:
    """One head of each layer."""
    first = {layer: number for number, (layer, _) in reversed(list(enumerate(effects.heads)))}
    layers = sorted(first)
    lines = [("silenced before W_O", effects.right), ("slice of W_O's output", effects.wrong)]
    series = tuple(Series(name, [float(layer) for layer in layers], [max(float(x.mean(0)[first[layer]]), 1e-12) for layer in layers]) for name, x in lines)
    return Plot("points", "layer, one head of each", "KL, nats" if effects.measure == "kl" else "1 − cosine", series, log_y=True)


ENTRY = Claim(
    sentence="Zeroing a slice of o_proj's output silences a head.",
    source="Code that does so: nnsight, issue 525; thought-anchors, issue 7",
    address="https://github.com/interp-reasoning/thought-anchors/issues/7",
    published="No number. Issue 7 says why: the output is already projected, so block h is a set of coordinates that all heads contributed to.",
    definition=(
        "Slice h is the h-th of H equal parts of what W_O gives. Its own share is Σ w_h · out over the slice, over Σ out² there; w_h is what head h writes. "
        "The effect is how far the model's output moves: KL from the unchanged distribution over tokens, or 1 − cosine of the last hidden state for a model "
        "without one."
    ),
    refuted_by="Less than half of what a slice removes is its head's.",
    rule=(
        f"Cut: the upper end of the share is below {percent(HALF)}. Kept: its lower end is above {percent(MOST)}. Corrected: it lies between. Intervals: 95 "
        "%, bootstrap over texts."
    ),
    run=run,
)
