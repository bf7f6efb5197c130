"""Claim: if one head is silenced, the others carry the signal. Measures the cost of ablating each head, and self-repair."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headwise.analysis.ablation.resilience import SelfRepair, self_repair
from headwise.analysis.intervals import Interval, bootstrap
from headwise.analysis.roles.role_verdict import sure
from headwise.axes import Bool, Float, Tensor
from headwise.errors import WritesRefused
from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.bootstrap_statistic import bootstrap_statistic
from headwise.experiments.estimates.confidence_interval import bounds, mean_over_texts, side_of, texts_needed
from headwise.experiments.estimates.split_halves import split_halves
from headwise.experiments.measurements.negligible import COST_UNITS, NEGLIGIBLE, NEGLIGIBLE_TEXT, OWN_LOSSES, loss_scale
from headwise.experiments.number_text import percent
from headwise.experiments.trained.random_removal import removal_numbers, removal_sentence

if TYPE_CHECKING:
    from headwise.experiments.study import Study

TEXTS = 8
TOP = 0.1  # share of the heads that counts as the most important
SHOWN = 300  # heads in the plot, at most


def run(study: "Study") -> Card:
    return study.too_few_texts(TEXTS, "the cost of ablating a head") or _card(study)


def _card(study: "Study") -> Card:
    costs = AblationCosts(study.effects / loss_scale(study), study.counts[study.ablation_texts], study.seed)
    unit = COST_UNITS[study.loss]
    numbers = {
        "median": costs.median(unit),
        "worst": costs.worst(unit),
        "needed": costs.needed(),
        **costs.top(),
        **_repair(study),
        **removal_numbers(),
    }
    verdict = _verdict(numbers["median"], numbers["needed"])
    return Card(
        verdict,
        _summary(study, costs, numbers, verdict),
        numbers,
        costs.plot(unit),
        "Most of the time." if verdict == "corrected" else "",
        texts=len(study.ablation_texts),
        tokens=study.tokens_of(study.ablation_texts),
        measure=study.loss,
    )


@dataclass(frozen=True, eq=False)
class AblationCosts:
    """The cost of ablating each head, by text."""

    values: Float[Tensor, "n L H"]
    counts: Float[Tensor, " n"]
    seed: int

    @property
    def interval(self) -> Interval:
        return bootstrap(self.values * self.counts[:, None, None], self.counts, self.seed)

    @property
    def heads(self) -> int:
        return int((~self.values[0].isnan()).sum())

    def median(self, unit: str) -> Number:
        return bootstrap_statistic(
            self.values, self.counts, lambda mean: mean.flatten(1).nanquantile(0.5, 1), seed=self.seed, means="cost of the median head", unit=unit
        )

    def worst(self, unit: str) -> Number:
        """The head that costs most on one half of the texts, with its cost on the other half."""
        one, other = split_halves(len(self.counts), self.seed)
        layer, head = self._most(one, 1)[0]
        means = f"cost of head {layer}.{head}, chosen on the other half of the texts"
        return mean_over_texts(self.values[other, layer, head], self.counts[other], seed=self.seed, means=means, unit=unit)

    def needed(self) -> Number:
        """The number of heads whose cost is above the bar, with an interval that is corrected for all heads."""
        found = self.interval
        low = int(sure(found, self.heads, NEGLIGIBLE).sum())
        without = Interval(-found.mean, -found.high, -found.low, found.spread)
        high = self.heads - int(sure(without, self.heads, -NEGLIGIBLE).sum())
        mean = int((found.mean > NEGLIGIBLE).sum())
        return Number(mean, "heads whose ablation costs more than the bar", low, high, "heads")

    def named(self) -> list[str]:
        """The heads whose cost is certainly above the bar, the costliest first."""
        found = self.interval
        certain = sure(found, self.heads, NEGLIGIBLE)
        order = [(layer, head) for layer, head in self._most(torch.arange(len(self.counts)), self.heads) if bool(certain[layer, head])]
        return [f"{layer}.{head}" for layer, head in order]

    def top(self) -> dict[str, Number]:
        """The share of the total cost that is due to the costliest heads, chosen on the other half; empty unless the total is certainly above 0."""
        one, other = split_halves(len(self.counts), self.seed)
        chosen = torch.zeros(self.values.shape[1:], dtype=torch.bool)
        for layer, head in self._most(one, max(1, round(TOP * self.heads))):
            chosen[layer, head] = True

        def share(mean: Float[Tensor, "d L H"]) -> Float[Tensor, " d"]:
            return mean[:, chosen].sum(1) / mean.flatten(1).nansum(1)

        means = f"share of the summed costs of all heads that is due to the {int(chosen.sum())} costliest, chosen on the other half of the texts"
        every = bootstrap_statistic(self.values[other], self.counts[other], lambda mean: mean.flatten(1).nansum(1), seed=self.seed)
        if bounds(every)[0] <= 0:
            return {}
        return {"top_tenth": bootstrap_statistic(self.values[other], self.counts[other], share, seed=self.seed, means=means, unit="share")}

    def plot(self, unit: str) -> Plot:
        """The positive costs of heads, the costliest first."""
        found = self.interval
        known = ~found.mean.isnan()
        mean, low, high = (x[known] for x in (found.mean, found.low, found.high))
        order = mean.argsort(descending=True)
        order = order[mean[order] > 0]
        kept = order[torch.linspace(0, len(order) - 1, min(len(order), SHOWN)).round().long()] if len(order) else order
        ranks = [int((order == place).nonzero()[0, 0]) + 1 for place in kept]
        floor = float(mean[kept].min()) / 10 if len(kept) else 1e-9  # a log axis has no 0
        line = Series("ablated alone", ranks, mean[kept].tolist(), low[kept].clamp(min=floor).tolist(), high[kept].clamp(min=floor).tolist())
        return Plot("line", "heads, costliest first", f"cost, {unit}", [line], log_y=True, reference=NEGLIGIBLE)

    def _most(self, texts: Tensor, count: int) -> list[tuple[int, int]]:
        weights = self.counts[texts].double()
        mean = (self.values[texts] * weights[:, None, None]).sum(0) / weights.sum()
        width = mean.shape[1]
        return [divmod(int(place), width) for place in mean.nan_to_num(-torch.inf).flatten().argsort(descending=True)[:count]]


def _verdict(median: Number, needed: Number) -> ClaimVerdict:
    where = side_of(median, NEGLIGIBLE)
    if where == "above":
        return "cut"
    least, most = bounds(needed)
    if where == "below" and least:
        return "corrected"
    return "kept" if where == "below" and most == 0 else "inconclusive"


def _repair(study: "Study") -> dict[str, Number]:
    """Self-repair: how much of the direct effect of the most important heads is compensated when they are ablated; for decoders only."""
    if study.loss != "next":
        return {}
    one, other = split_halves(len(study.texts), study.seed)
    try:
        chosen = _largest_direct(study, one[: TEXTS // 2])
        found = []
        for done, number in enumerate(other[:TEXTS].tolist(), start=1):
            found.append(self_repair(study.passage(number), chosen))
            study.progress("self-repair", done, min(len(other), TEXTS))
    except WritesRefused:
        return {}
    return _repair_numbers(found, chosen, study.seed)


def _largest_direct(study: "Study", texts: Tensor) -> Bool[Tensor, "L H"]:
    """The heads with the largest direct effect on the true token's logit."""
    first = [study.passage(number) for number in texts.tolist()]
    none = torch.zeros(len(first[0].places), max(place.heads for place in first[0].places), dtype=torch.bool)
    direct = torch.stack([self_repair(passage, none).direct for passage in first]).sum(0).nan_to_num(-torch.inf)
    count = max(1, round(TOP * len(study.heads)))
    return none.flatten().scatter(0, direct.flatten().argsort(descending=True)[:count], True).view_as(none)


def _repair_numbers(found: list[SelfRepair], chosen: Bool[Tensor, "L H"], seed: int) -> dict[str, Number]:
    known = ~found[0].direct.isnan()
    rows = chosen[known]  # as makes_up counts heads
    sums = torch.stack([torch.stack([x.direct[chosen].sum(), x.total[chosen].sum(), x.makes_up[rows].double().sum()]) for x in found])
    tokens = torch.tensor([float(x.tokens) for x in found])
    per_token = sums / tokens[:, None]
    which = f"share of the direct effect of {int(chosen.sum())} heads, chosen on other texts, on the true token's logit"
    made_up = f"{which} that is compensated when each is ablated; negative if more is lost than they add"
    by_heads = f"{which} that later heads add instead"
    return {
        "repaired": bootstrap_statistic(
            per_token, tokens, lambda mean: 1 - mean[:, 1] / mean[:, 0], seed=seed, means=made_up, unit="share", published=REPAIRED
        ),
        "by_heads": bootstrap_statistic(per_token, tokens, lambda mean: mean[:, 2] / mean[:, 0], seed=seed, means=by_heads, unit="share"),
    }


def _summary(study: "Study", costs: AblationCosts, numbers: dict[str, Number], verdict: ClaimVerdict) -> str:
    median, worst, named = numbers["median"], numbers["worst"], costs.named()
    sentences = [f"When the median head is ablated, {_by(study, median)}; for the costliest head, chosen on other texts, {_by(study, worst)}."]
    listed = f"{', '.join(named[:5])}{' and others' if len(named) > 5 else ''}"
    count = f"{len(named) or 'None'} of {costs.heads} heads"
    sentences.append(f"{count} certainly cost{'s' if len(named) < 2 else ''} over {_bar(study)}{f': {listed}' if named else ''}.")
    if "repaired" in numbers:
        sentences.append(_summary_repair(numbers["repaired"]))
    sentences.append(removal_sentence(numbers))
    if verdict == "inconclusive":
        sentences.append(_needed(median, numbers["needed"], len(study.ablation_texts)))
    return " ".join(sentences)


def _summary_repair(found: Number) -> str:
    (low, high), heads = bounds(found), "the heads with the largest direct effect on the true token's logit"
    interval = f"({percent(low)} to {percent(high)})"
    if low > 0:
        return f"When one of {heads} is ablated, the rest of the model compensates for {percent(found.value)} {interval} of that effect."
    if high < 0:
        return f"The rest of the model does not compensate: when one of {heads} is ablated, {percent(-found.value)} more is lost than it adds directly."
    return f"It is not certain whether the rest of the model compensates for {heads}: {percent(found.value)} of that effect {interval}."


def _needed(median: Number, needed: Number, texts: int) -> str:
    count = texts_needed(median, NEGLIGIBLE, texts) if side_of(median, NEGLIGIBLE) == "unsure" else None
    if count is not None:
        return f"About {count} texts would be needed to decide on which side of the bar the median head lies."
    return f"Up to {bounds(needed)[1]:.0f} heads might cost more than the bar; more texts would decide."


def _bar(study: "Study") -> str:
    return percent(NEGLIGIBLE) if study.loss in OWN_LOSSES else f"{NEGLIGIBLE} ({COST_UNITS[study.loss]})"


def _by(study: "Study", number: Number) -> str:
    """The change in loss or output as a clause, with its interval."""
    low, high = bounds(number)
    if study.loss in OWN_LOSSES:
        return f"the loss {'rises' if number.value >= 0 else 'falls'} by {percent(abs(number.value))} ({percent(low)} to {percent(high)})"
    what = "the output turns" if study.loss == "cosine" else "the distribution over tokens moves"
    return f"{what} by {number.value:.2g} ({low:.2g} to {high:.2g}; {COST_UNITS[study.loss]})"


REPAIRED = "self-repair is imperfect and noisy (Rushing & Nanda 2024)"

ENTRY = Claim(
    sentence="If one head is silenced, the others carry the signal.",
    source="McGrath et al. 2023, The Hydra Effect; Rushing and Nanda 2024, Explorations of Self-Repair in Language Models; Michel et al. 2019",
    address="https://arxiv.org/abs/2402.15390",
    published="When an attention layer is ablated, another one compensates (McGrath 2023). For single heads this occurs in models of several families and "
    "sizes, but a head's effect is not fully restored, and the restored part varies between prompts (Rushing & Nanda 2024). Most heads can be removed one at a "
    "time without a significant loss (Michel 2019).",
    definition="A head is silenced (ablated) by setting its z, which W_O reads, to 0. The others carry the signal if this costs next to nothing: "
    f"{NEGLIGIBLE_TEXT['next']} or less; for models without a loss of their own, {NEGLIGIBLE_TEXT['cosine']} or less, or {NEGLIGIBLE_TEXT['kl']} or less. "
    "The compensated part is a head's direct effect on the true token's centred logit minus the drop of that logit when the head is ablated.",
    refuted_by="A cost of the median head above the bar.",
    rule="Kept: the median head's cost is below the bar, and so is every head's, corrected for all heads (95 %, Bonferroni). Corrected: the median head's is "
    "below, but that of some heads is certainly above. Cut: the median head's is above. Whether more heads make a model harder to silence is reported as well.",
    run=run,
)
