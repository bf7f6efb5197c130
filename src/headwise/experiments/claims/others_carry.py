"""Silence one head: does what the model does get lost, and do other heads make up for it?"""

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
TOP = 0.1  # of the heads: those on which most rests
SHOWN = 300  # heads in the picture


def run(study: "Study") -> Card:
    return study.too_few_texts(TEXTS, "what silencing a head costs") or _card(study)


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
    """What silencing each head costs, by text."""

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
        """The head that costs most on one half of the texts, by what it costs on the other."""
        one, other = split_halves(len(self.counts), self.seed)
        layer, head = self._most(one, 1)[0]
        means = f"cost of head {layer}.{head}, chosen on the other half of the texts"
        return mean_over_texts(self.values[other, layer, head], self.counts[other], seed=self.seed, means=means, unit=unit)

    def needed(self) -> Number:
        """Heads whose cost is above the bar, for certain and for all heads at once; up to how many it could be."""
        found = self.interval
        low = int(sure(found, self.heads, NEGLIGIBLE).sum())
        without = Interval(-found.mean, -found.high, -found.low, found.spread)
        high = self.heads - int(sure(without, self.heads, -NEGLIGIBLE).sum())
        mean = int((found.mean > NEGLIGIBLE).sum())
        return Number(mean, "heads that cost more than the bar", low, high, "heads")

    def named(self) -> list[str]:
        """Those that certainly do, the costliest first."""
        found = self.interval
        certain = sure(found, self.heads, NEGLIGIBLE)
        order = [(layer, head) for layer, head in self._most(torch.arange(len(self.counts)), self.heads) if bool(certain[layer, head])]
        return [f"{layer}.{head}" for layer, head in order]

    def top(self) -> dict[str, Number]:
        """What the heads that cost most on one half of the texts hold of all cost on the other, where that is certainly above 0."""
        one, other = split_halves(len(self.counts), self.seed)
        chosen = torch.zeros(self.values.shape[1:], dtype=torch.bool)
        for layer, head in self._most(one, max(1, round(TOP * self.heads))):
            chosen[layer, head] = True

        def share(mean: Float[Tensor, "d L H"]) -> Float[Tensor, " d"]:
            return mean[:, chosen].sum(1) / mean.flatten(1).nansum(1)

        means = f"of the costs of all heads together, that of the {int(chosen.sum())} costliest, chosen on the other half of the texts"
        every = bootstrap_statistic(self.values[other], self.counts[other], lambda mean: mean.flatten(1).nansum(1), seed=self.seed)
        if bounds(every)[0] <= 0:
            return {}
        return {"top_tenth": bootstrap_statistic(self.values[other], self.counts[other], share, seed=self.seed, means=means, unit="share")}

    def plot(self, unit: str) -> Plot:
        """Every head's cost, the costliest first, as far as it is above 0."""
        found = self.interval
        known = ~found.mean.isnan()
        mean, low, high = (x[known] for x in (found.mean, found.low, found.high))
        order = mean.argsort(descending=True)
        order = order[mean[order] > 0]
        kept = order[torch.linspace(0, len(order) - 1, min(len(order), SHOWN)).round().long()] if len(order) else order
        ranks = [int((order == place).nonzero()[0, 0]) + 1 for place in kept]
        floor = float(mean[kept].min()) / 10 if len(kept) else 1e-9  # a log axis has no 0
        line = Series("silenced alone", ranks, mean[kept].tolist(), low[kept].clamp(min=floor).tolist(), high[kept].clamp(min=floor).tolist())
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
    """How much of what the loudest heads add to the true token's logit is made up for without them; of decoders that heads write to directly."""
    if study.loss != "next":
        return {}
    one, other = split_halves(len(study.texts), study.seed)
    try:
        chosen = _loudest(study, one[: TEXTS // 2])
        found = []
        for done, number in enumerate(other[:TEXTS].tolist(), start=1):
            found.append(self_repair(study.passage(number), chosen))
            study.progress("self-repair", done, min(len(other), TEXTS))
    except WritesRefused:
        return {}
    return _repair_numbers(found, chosen, study.seed)


def _loudest(study: "Study", texts: Tensor) -> Bool[Tensor, "L H"]:
    """The heads that add most to the true token's logit directly."""
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
    which = f"of what {int(chosen.sum())} heads add to the true token's logit directly, chosen on other texts,"
    made_up = f"{which} what is made up for when each is silenced; below 0 more is lost than they add"
    by_heads = f"{which} what later heads add instead"
    return {
        "repaired": bootstrap_statistic(
            per_token, tokens, lambda mean: 1 - mean[:, 1] / mean[:, 0], seed=seed, means=made_up, unit="share", published=REPAIRED
        ),
        "by_heads": bootstrap_statistic(per_token, tokens, lambda mean: mean[:, 2] / mean[:, 0], seed=seed, means=by_heads, unit="share"),
    }


def _summary(study: "Study", costs: AblationCosts, numbers: dict[str, Number], verdict: ClaimVerdict) -> str:
    median, worst, named = numbers["median"], numbers["worst"], costs.named()
    says = [f"Without the median head {_by(study, median)}; without the costliest, chosen on other texts, {_by(study, worst)}."]
    listed = f"{', '.join(named[:5])}{' and others' if len(named) > 5 else ''}"
    says.append(f"{len(named) or 'No head'} of {costs.heads}{' heads' if named else ''} certainly cost over {_bar(study)}{f': {listed}' if named else ''}.")
    if "repaired" in numbers:
        says.append(_summary_repair(numbers["repaired"]))
    says.append(removal_sentence(numbers))
    if verdict == "inconclusive":
        says.append(_needed(median, numbers["needed"], len(study.ablation_texts)))
    return " ".join(says)


def _summary_repair(found: Number) -> str:
    (low, high), loud = bounds(found), "the heads that add most to the right token"
    interval = f"({percent(low)} to {percent(high)})"
    if low > 0:
        return f"Of what {loud} add to it directly, the rest of the model makes up for {percent(found.value)} {interval} when one is silenced."
    if high < 0:
        return f"The rest of the model makes up for nothing: without one of {loud}, {percent(-found.value)} more is lost than it adds directly."
    return f"Whether the rest of the model makes up for {loud} cannot be told: {percent(found.value)} of what they add {interval}."


def _needed(median: Number, needed: Number, texts: int) -> str:
    count = texts_needed(median, NEGLIGIBLE, texts) if side_of(median, NEGLIGIBLE) == "unsure" else None
    if count is not None:
        return f"About {count} texts would tell on which side of the bar the median head lies."
    return f"Up to {bounds(needed)[1]:.0f} heads might cost more: more texts would tell."


def _bar(study: "Study") -> str:
    return percent(NEGLIGIBLE) if study.loss in OWN_LOSSES else f"{NEGLIGIBLE} ({COST_UNITS[study.loss]})"


def _by(study: "Study", number: Number) -> str:
    """What happens, with the number."""
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
    published="Silencing an attention layer makes another compensate (McGrath 2023). For single heads this is seen in models of several families and sizes, "
    "but a head's effect is not restored in full, and how much is varies from prompt to prompt (Rushing & Nanda 2024). Most heads can be removed one at a time "
    "without a significant loss (Michel 2019).",
    definition="A head is silenced when what W_O reads of it is 0. The others carry on where its cost is next to nothing: "
    f"{NEGLIGIBLE_TEXT['next']} or less; for models without a loss of their own, {NEGLIGIBLE_TEXT['cosine']} or less, or {NEGLIGIBLE_TEXT['kl']} or less. "
    "Made up for is what a head adds to the true token's centred logit directly, less what that logit falls by without it.",
    refuted_by="The median head's cost lies above the bar.",
    rule="Kept: the median head's cost is below the bar, and every head's is, for all heads at once (95 %, Bonferroni). Corrected: the median head's is, "
    "but that of some heads is certainly above it. Cut: the median head's is above it. Whether more heads make a model harder to silence is told beside it.",
    run=run,
)
