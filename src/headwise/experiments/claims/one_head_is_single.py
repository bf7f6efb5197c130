"""Moves 4 and 5 on a real model: a head alone is single-head attention, and heads that read one slice are one head."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.intervals import bootstrap
from headwise.axes import Float, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import mean_over_texts
from headwise.experiments.measurements.negligible import NEGLIGIBLE, NEGLIGIBLE_TEXT, OWN_LOSSES, loss_scale
from headwise.experiments.measurements.single_head import SingleHeadCheck, losses_tied, single_head_check
from headwise.experiments.number_text import nats
from headwise.interventions.edits.tie_heads import TieHeads

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 4  # texts
TEXTS = 6  # on which layers are tied
SAME = 1e-6  # half a sum of differences between two patterns: less is rounding


@dataclass(frozen=True, eq=False)
class TyingCosts:
    """What tying costs on each text: each layer that has several heads, and all of them at once.

    Attributes:
        layers: those that have several heads.
        distance: between patterns of heads once all are tied, the largest of any layer.
        edited: the loss on the first text of the model that `hw.TieHeads` makes, with all layers tied.
    """

    layers: list[int]
    base: Float[Tensor, " n"]
    counts: Float[Tensor, " n"]
    each: Float[Tensor, "n L"]
    every: Float[Tensor, " n"]
    distance: float
    edited: float


def run(study: "Study") -> Card:
    """Compute every head alone; then tie."""
    few = study.too_few_texts(FEWEST, "what tying costs")
    if few is not None:
        return few
    places = study.passage(0).places
    layers = [layer for layer, place in enumerate(places) if place.heads > 1]
    numbers_of_texts = range(min(TEXTS, len(study.texts)))
    alone = [single_head_check(study.passage(number)) for number in numbers_of_texts[:2]]
    told: dict[str, Any] = {
        "texts": len(numbers_of_texts),
        "tokens": sum(study.passage(number).forward.cache.wo_inputs[places[0].index].shape[1] for number in numbers_of_texts),
    }
    gap = max(mine / allowed for text in alone for gaps, slack in zip(text.gap, text.allowed, strict=True) for mine, allowed in zip(gaps, slack, strict=True))
    if gap > 1:
        return Card("cut", f"A head computed alone says something else than among the others: {gap:.3g} times what rounding allows.", **told)
    if not layers:
        return Card(
            "inconclusive", "Each layer has one head, and it is single-head attention. There is no other to tie it to: independence says nothing here.", **told
        )
    tied = _tied(study, layers)
    costs = bootstrap((tied.each - tied.base[:, None]) * tied.counts[:, None], tied.counts, study.seed)
    bar = NEGLIGIBLE * loss_scale(study)
    felt = int((costs.low > bar).sum())
    verdict = "cut" if tied.distance > SAME else "kept" if felt > len(layers) / 2 else "corrected"
    correction = f"Tied heads are one head, and in {felt} of {len(layers)} layers that costs something." if verdict == "corrected" else ""
    numbers = _numbers(study, alone, tied, felt, gap)
    return Card(verdict, _summary(study, numbers, tied, felt), numbers, _plot(study, alone, tied), correction, measure=study.loss, **told)


def _tied(study: "Study", layers: list[int]) -> TyingCosts:
    found = []
    texts = range(min(TEXTS, len(study.texts)))
    for number in texts:
        found.append(losses_tied(study.passage(number), layers))
        study.progress("tying layers", number + 1, len(texts))
    losses = torch.stack(found)
    edited = study.model.edit([TieHeads(layer, part=study.part) for layer in layers], mode="run", inputs=study.texts[0])
    passage = Evaluator(edited, study.loss, study.part, study.seed).open(study.texts[0])
    distances = [distance for layer, distance in enumerate(single_head_check(passage).distance) if layer in layers]
    edited_loss = float(study.passage(0).loss(passage.forward.cache.outputs, 1))
    n = len(texts)
    return TyingCosts(layers, study.base[:n], study.counts[:n], losses[:, :-1], losses[:, -1], max(distances), edited_loss)


def _numbers(study: "Study", alone: list[SingleHeadCheck], tied: TyingCosts, felt: int, gap: float) -> dict[str, Number]:
    each, every, counts, seed = tied.each - tied.base[:, None], tied.every - tied.base, tied.counts, study.seed
    distance = torch.tensor([[text.distance[layer] for layer in tied.layers] for text in alone], dtype=torch.float64)
    return {
        "heads alone": Number(float(sum(len(row) for row in alone[0].gap)), "computed from their own slices by the definition, in float64", unit="heads"),
        "gap": Number(gap, "the largest difference between a head alone and among the others, as a share of what the rounding of scores allows"),
        "patterns apart": Number(float(distance.mean()), "total variation between the patterns of two heads of a layer, mean over pairs, queries, layers"),
        "patterns apart, tied": Number(tied.distance, "the same with every layer tied, in the layer where it is largest"),
        "base": mean_over_texts(tied.base, counts, seed=seed, means="loss of the unchanged model"),
        "one layer": mean_over_texts(each.median(1).values, counts, seed=seed, means="by how much the loss rises when one layer is tied, median layer"),
        "worst layer": Number(
            float((each * counts[:, None]).sum(0).max() / counts.sum()), "the same in the layer where it rises most; highest of all, so it flatters"
        ),
        "all layers": mean_over_texts(every, counts, seed=seed, means="by how much it rises when all are tied"),
        "layers": Number(float(felt), f"in which tying is certainly felt: {NEGLIGIBLE_TEXT[study.loss]} or more", unit="layers"),
        "edit": Number(abs(tied.edited - float(tied.every[0])), "difference of the loss, all tied, from that of the model which hw.TieHeads makes; first text"),
    }


def _summary(study: "Study", numbers: dict[str, Number], tied: TyingCosts, felt: int) -> str:
    alone, before, after = numbers["heads alone"], numbers["patterns apart"], numbers["patterns apart, tied"]
    one, every, base = numbers["one layer"], numbers["all layers"], numbers["base"]
    rises = f"from {nats(base.value)} to {nats(base.value + every.value)} nats" if study.loss in OWN_LOSSES else f"to {nats(every.value)}"
    measured = {
        "next": "the loss",
        "masked": "the loss on masked words",
        "kl": "the distance from the model's own distribution (KL)",
        "cosine": "the distance from the model's own output (1 − cosine)",
    }
    same = "0" if after.value < SAME else f"{after.value:.2g}"
    return (
        f"Each of {alone.value:.0f} heads, computed alone from its own slices, says what it says among the others, within rounding. Two heads of a layer look "
        f"apart by {before.value:.2f} of their weight; tied to head 0, by {same}. Tying all layers takes {measured[study.loss]} {rises}, tying the median "
        f"layer raises it by {nats(one.value)}; in {felt} of {len(tied.layers)} layers it is certainly felt ({NEGLIGIBLE_TEXT[study.loss]})."
    )


def _plot(study: "Study", alone: list[SingleHeadCheck], tied: TyingCosts) -> Plot:
    x = [float(layer) for layer in tied.layers]
    costs = bootstrap((tied.each - tied.base[:, None]) * tied.counts[:, None], tied.counts, study.seed)
    rises = Series("loss, this layer tied", x, costs.mean.tolist(), costs.low.tolist(), costs.high.tolist())
    return Plot("line", "layer", "by how much the loss rises" if study.loss in OWN_LOSSES else "distance from the model's own output", (rises,))


ENTRY = Claim(
    sentence="One head alone is single-head attention, and tying heads destroys independence.",
    source="Vaswani et al. 2017, section 3.2.2",
    address="https://arxiv.org/abs/1706.03762",
    published=(
        "No number. With several heads the model attends to information from different subspaces at different positions, and with one head averaging "
        "inhibits this; their model with one head is 0.9 BLEU worse than the best."
    ),
    definition=(
        "Alone: what the definition of single-head attention, in float64, makes of a head's own slices of query, key and value. Tied: every head of a layer "
        "reads the slices of head 0, W_O as it is. Independence: that heads of a layer can look at different places, measured by total variation between "
        "their patterns."
    ),
    refuted_by="A head that says something else alone than among the others; tied heads with different patterns; a loss that does not notice.",
    rule=(
        "Cut: a head alone differs by more than the rounding of its scores allows, or tied patterns differ. Kept: neither, and in more than half of the "
        "layers tying is certainly felt: the lower end of what it costs is above 1 % of the loss, or above 0.01 where there is only a distance from the "
        "model's own output. Corrected: neither, and it is felt in fewer layers. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
