"""Claim: zeroing a slice of o_proj's output silences a head. Compares slices of W_O's output, which mix all heads, with ablating the head before W_O."""

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
from headwise.experiments.number_text import between, percent

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 4  # texts
HEADS, TEXTS = 48, 4  # whose effect on the output is measured both ways, at most
HALF, MOST = 0.5, 0.9  # head h's share of what slice h removes: the bars for "cut" and "kept"


@dataclass(frozen=True, eq=False)
class SliceEffects:
    """The change of the model's output when heads are ablated before W_O (`right`), and when slices are zeroed after it (`wrong`), in the order of `heads`."""

    heads: tuple[tuple[int, int], ...]
    right: Float[Tensor, "n N"]
    wrong: Float[Tensor, "n N"]
    measure: str


def run(study: "Study") -> Card:
    """Measure how much of a slice of W_O's output is its head's, and what zeroing it does to the model's output."""
    few = study.too_few_texts(FEWEST, "the content of a slice of the output")
    if few is not None:
        return few
    fields: dict[str, Any] = {"texts": len(study.texts), "tokens": study.token_count}
    found = write_summary(study)
    if bool(found.removed.isnan().all()):
        return Card("inconclusive", "The output of W_O has a different width from the concatenated heads, so it has no slice for each head.", **fields)
    if all(int((~layer.isnan()).sum()) < 2 for layer in found.removed[0]):
        return Card("inconclusive", "Every layer has a single head, so the slice is the whole output.", **fields)
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
    summary, correction = _summary(numbers, effects), "Mostly." if verdict == "corrected" else ""
    if verdict == "inconclusive":
        summary = f"{summary} Too few texts: about {texts_needed(own, HALF, len(study.texts))} would be needed."
    return Card(verdict, summary, numbers, _plot(effects), correction, measure=effects.measure, **fields)


def _effects(study: "Study") -> SliceEffects:
    """Both effects of a sample of heads, spread evenly over the layers, on a few texts."""
    measure = "cosine" if study.loss == "cosine" else "kl"
    evaluator = Evaluator(study.model, measure, study.part, study.seed)
    heads = _drawn(study)
    right, wrong = [], []
    texts = study.texts[:TEXTS]
    for number, text in enumerate(texts):
        passage = study.passage(number) if measure == study.loss else evaluator.open(text)
        evaluator.learn(passage)
        layers = sorted({layer for layer, _ in heads})
        by_layer = [(passage.places[layer], [head for mine, head in heads if mine == layer]) for layer in layers]
        right.append(torch.cat([ablated_losses(passage, place, zero_ablation(passage, place.index), some) for place, some in by_layer]))
        wrong.append(torch.cat([losses_sliced(passage, place, some) for place, some in by_layer]))
        study.progress("slices and heads", number + 1, len(texts))
    return SliceEffects(tuple(heads), torch.stack(right), torch.stack(wrong), measure)


def _drawn(study: "Study") -> list[tuple[int, int]]:
    """The same number of heads from each layer, at random."""
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
    ratios = (wrong / right).log().abs().exp()
    order = _ranks_agree(right, wrong)
    return {
        "own": mean_over_texts(own, tokens, seed=seed, means="share of what zeroing slice h removes that is head h's; mean over heads"),
        "equal": Number(float((1 / heads[heads > 0]).mean()), "1 / H: the share if every head contributed equally to a slice"),
        "cosine": mean_over_texts(
            alike, tokens, seed=seed, means="cosine between what zeroing the slice removes and what the head writes; mean over tokens and heads"
        ),
        "factor": Number(
            float(ratios.median()), f"ratio of the larger effect on the output to the smaller, median of {len(ratios)} heads", *_median_interval(ratios)
        ),
        "factor, most": Number(float(ratios.max()), "the largest such ratio; a maximum over heads, so biased upwards"),
        "order": Number(order, "Spearman rank correlation between the effects of zeroing the slice and of ablating the head, over these heads"),
    }


def _median_interval(ratios: Float[Tensor, " N"]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median, resampling heads."""
    draws = torch.randint(len(ratios), (1000, len(ratios)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(ratios[draws].median(1).values, torch.tensor([0.025, 0.975], dtype=ratios.dtype)).tolist()
    return low, high


def _ranks_agree(one: Float[Tensor, " N"], other: Float[Tensor, " N"]) -> float:
    """Spearman's rank correlation; NaN for two heads or fewer."""
    from scipy.stats import spearmanr  # not earlier: it takes a while to import

    return float(spearmanr(one, other).statistic) if len(one) > 2 else float("nan")  # pyright: ignore[reportAttributeAccessIssue]


def _summary(numbers: dict[str, Number], effects: SliceEffects) -> str:
    own, equal, factor = numbers["own"], numbers["equal"], numbers["factor"]
    return (
        f"Of what zeroing the h-th slice of W_O's output removes, {percent(own.value)} is head h's ({between(own, percent)}); if all heads contributed equally "
        f"it would be {percent(equal.value)}. The effect on the model's output differs from that of ablating the head by a factor of {factor.value:.3g} in the "
        f"median of {len(effects.heads)} heads and of {numbers['factor, most'].value:.3g} at most; the rank correlation of the two effects is "
        f"{numbers['order'].value:.2f}."
    )


def _plot(effects: SliceEffects) -> Plot:
    """One head of each layer."""
    first = {layer: number for number, (layer, _) in reversed(list(enumerate(effects.heads)))}
    layers = sorted(first)
    lines = [("ablated before W_O", effects.right), ("slice of W_O's output zeroed", effects.wrong)]
    series = tuple(Series(name, [float(layer) for layer in layers], [max(float(x.mean(0)[first[layer]]), 1e-12) for layer in layers]) for name, x in lines)
    return Plot("points", "layer, one head of each", "KL, nats" if effects.measure == "kl" else "1 − cosine", series, log_y=True)


ENTRY = Claim(
    sentence="Zeroing a slice of o_proj's output silences a head.",
    source="Published code that does this: nnsight, issue 525; thought-anchors, issue 7",
    address="https://github.com/interp-reasoning/thought-anchors/issues/7",
    published="No number. Issue 7 gives the reason: the output is already projected, so block h is a set of coordinates to which all heads contribute.",
    definition=(
        "Slice h is the h-th of H equal parts of W_O's output. Head h's share of it is Σ w_h · out over the slice, divided by Σ out² there, where w_h is "
        "what head h writes. The effect is the change of the model's output: KL divergence from the unchanged distribution over tokens, or 1 − cosine of the "
        "last hidden state for a model without such a distribution."
    ),
    refuted_by="Less than half of what zeroing a slice removes is its head's.",
    rule=(
        f"Cut: the upper end of the share is below {percent(HALF)}. Kept: its lower end is above {percent(MOST)}. Corrected: the interval lies between. "
        "Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
