"""Claim: one head alone is single-head attention, and tying heads destroys independence (moves 4 and 5 on a real model)."""

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
SAME = 1e-6  # total variation between two patterns below which they differ by rounding only


@dataclass(frozen=True, eq=False)
class TyingCosts:
    """The loss on each text with one layer tied, for every layer that has several heads, and with all of them tied.

    Attributes:
        layers: the layers that have several heads.
        base: the loss of the unchanged model.
        each: the loss with one layer tied.
        every: the loss with all layers tied.
        distance: total variation between the heads' patterns once all layers are tied; the largest of any layer.
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
    """Compute every head by itself and compare; then tie the heads of each layer."""
    few = study.too_few_texts(FEWEST, "the cost of tying heads")
    if few is not None:
        return few
    places = study.passage(0).places
    layers = [layer for layer, place in enumerate(places) if place.heads > 1]
    numbers_of_texts = range(min(TEXTS, len(study.texts)))
    alone = [single_head_check(study.passage(number)) for number in numbers_of_texts[:2]]
    fields: dict[str, Any] = {
        "texts": len(numbers_of_texts),
        "tokens": sum(study.passage(number).forward.cache.wo_inputs[places[0].index].shape[1] for number in numbers_of_texts),
    }
    gap = max(mine / allowed for text in alone for gaps, slack in zip(text.gap, text.allowed, strict=True) for mine, allowed in zip(gaps, slack, strict=True))
    if gap > 1:
        return Card("cut", f"A head computed alone differs from the same head in the model by {gap:.3g} times the rounding tolerance.", **fields)
    if not layers:
        return Card(
            "inconclusive",
            "Each layer has one head, which is single-head attention. There is no other head to tie it to, so independence cannot be tested.",
            **fields,
        )
    tied = _tied(study, layers)
    costs = bootstrap((tied.each - tied.base[:, None]) * tied.counts[:, None], tied.counts, study.seed)
    bar = NEGLIGIBLE * loss_scale(study)
    costly = int((costs.low > bar).sum())
    verdict = "cut" if tied.distance > SAME else "kept" if costly > len(layers) / 2 else "corrected"
    correction = (
        f"Tied heads behave as one head, but only in {costly} of {len(layers)} layers does tying have a measurable cost." if verdict == "corrected" else ""
    )
    numbers = _numbers(study, alone, tied, costly, gap)
    return Card(verdict, _summary(study, numbers, tied, costly), numbers, _plot(study, alone, tied), correction, measure=study.loss, **fields)


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


def _numbers(study: "Study", alone: list[SingleHeadCheck], tied: TyingCosts, costly: int, gap: float) -> dict[str, Number]:
    each, every, counts, seed = tied.each - tied.base[:, None], tied.every - tied.base, tied.counts, study.seed
    distance = torch.tensor([[text.distance[layer] for layer in tied.layers] for text in alone], dtype=torch.float64)
    return {
        "heads alone": Number(float(sum(len(row) for row in alone[0].gap)), "computed alone from their own slices by the definition, in float64", unit="heads"),
        "gap": Number(gap, "largest difference between a head computed alone and in the model, relative to the rounding tolerance of its scores"),
        "patterns apart": Number(float(distance.mean()), "total variation between the patterns of two heads of a layer, mean over pairs, queries and layers"),
        "patterns apart, tied": Number(tied.distance, "the same with every layer tied, in the layer where it is largest"),
        "base": mean_over_texts(tied.base, counts, seed=seed, means="loss of the unchanged model"),
        "one layer": mean_over_texts(each.median(1).values, counts, seed=seed, means="increase in loss when one layer is tied, median layer"),
        "worst layer": Number(
            float((each * counts[:, None]).sum(0).max() / counts.sum()),
            "the same in the layer with the largest increase; a maximum over layers, so biased upwards",
        ),
        "all layers": mean_over_texts(every, counts, seed=seed, means="increase in loss when all layers are tied"),
        "layers": Number(float(costly), f"layers in which tying certainly has a cost: {NEGLIGIBLE_TEXT[study.loss]} or more", unit="layers"),
        "edit": Number(
            abs(tied.edited - float(tied.every[0])),
            "absolute difference between the loss with all layers tied and that of the model edited with hw.TieHeads; first text",
        ),
    }


def _summary(study: "Study", numbers: dict[str, Number], tied: TyingCosts, costly: int) -> str:
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
        f"Each of {alone.value:.0f} heads, computed alone from its own slices, gives the same output as in the model, within rounding. The patterns of two "
        f"heads of a layer differ by a total variation of {before.value:.2f}; tied to head 0, by {same}. Tying all layers takes {measured[study.loss]} "
        f"{rises}; tying the median layer raises it by {nats(one.value)}. In {costly} of {len(tied.layers)} layers tying certainly has a cost "
        f"({NEGLIGIBLE_TEXT[study.loss]})."
    )


def _plot(study: "Study", alone: list[SingleHeadCheck], tied: TyingCosts) -> Plot:
    x = [float(layer) for layer in tied.layers]
    costs = bootstrap((tied.each - tied.base[:, None]) * tied.counts[:, None], tied.counts, study.seed)
    rises = Series("loss, this layer tied", x, costs.mean.tolist(), costs.low.tolist(), costs.high.tolist())
    return Plot("line", "layer", "increase in loss" if study.loss in OWN_LOSSES else "distance from the model's own output", (rises,))


ENTRY = Claim(
    sentence="One head alone is single-head attention, and tying heads destroys independence.",
    source="Vaswani et al. 2017, section 3.2.2",
    address="https://arxiv.org/abs/1706.03762",
    published=(
        "No number. With several heads the model attends to information from different subspaces at different positions, and with one head averaging "
        "inhibits this; their model with one head is 0.9 BLEU worse than the best."
    ),
    definition=(
        "Alone: single-head attention computed by its definition, in float64, from a head's own slices of query, key and value. Tied: every head of a layer "
        "reads the slices of head 0; W_O is unchanged. Independence: heads of a layer can attend to different positions, measured by the total variation "
        "between their patterns."
    ),
    refuted_by="A head whose output differs when computed alone; tied heads with different patterns; a loss that tying does not change.",
    rule=(
        "Cut: a head computed alone differs by more than the rounding tolerance of its scores, or tied patterns differ. Kept: neither, and in more than half "
        "of the layers tying certainly has a cost: the lower end of the increase is above 1 % of the loss, or above 0.01 for models measured by distance from "
        "their own output. Corrected: neither, and tying has a cost in fewer layers. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
