"""Claim: each head learns a distinct, interpretable role. Combines roles, pattern similarity, and joint ablation."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.analysis.ablation.exact_ablation import joint_ablation_losses, zero_ablation
from headwise.analysis.intervals import bootstrap
from headwise.analysis.roles.role_dataset import NONE
from headwise.analysis.similarity import similar
from headwise.axes import Bool, Float, Int, Tensor
from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.bootstrap_statistic import bootstrap_statistic
from headwise.experiments.estimates.confidence_interval import bounds
from headwise.experiments.estimates.split_halves import split_halves, weighted_mean
from headwise.experiments.measurements.negligible import COST_UNITS, NEGLIGIBLE, NEGLIGIBLE_TEXT, loss_scale
from headwise.experiments.number_text import percent

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 8  # texts
SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)  # shares of the heads that are ablated together
COARSE = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # for curves that are shown only
SHOWN_ON, COMPARED_ON = 4, 6  # texts for those curves, and for pattern similarity
ALIKE = 0.9  # 1 − Jensen–Shannon divergence over log 2 from which two heads count as similar
DRAWS = 200
ALL, HALF, SOME = 0.95, 0.5, 0.05


@dataclass(frozen=True, eq=False)
class AblationCurve:
    """Increases in loss with a share of the heads ablated, by text, in units of `loss_scale`."""

    shares: tuple[float, ...]
    rises: Float[Tensor, "n S"]
    counts: Float[Tensor, " n"]


def run(study: "Study") -> Card:
    return study.too_few_texts(FEWEST, "the share of heads that can be removed") or _card(study)


def _card(study: "Study") -> Card:
    roles, curves = _roles(study), _curves(study)
    numbers = {**roles, "alike": _alike(study), "can_go": _can_go(curves["least important first"], study)}
    verdict = _verdict(numbers)
    return Card(
        verdict,
        _summary(study, numbers),
        numbers,
        _plot(curves, study),
        _correction(numbers) if verdict == "corrected" else "",
        texts=len(study.texts),
        tokens=study.token_count,
        measure=study.loss,
    )


def _roles(study: "Study") -> dict[str, Number]:
    """Heads that certainly have a role, and heads for which a role cannot be ruled out."""
    found = study.roles
    there = ~np.isnan(found["score"].values[0])
    certain = (found["role"].values != NONE) & there
    possible = (found["gain_high"].values > found.attrs["margin"]).any(0) & there
    played = Counter(found["role"].values[certain].tolist())
    count = int(there.sum())
    means = f"heads that certainly have one of {len(found.task)} roles, corrected for all heads and roles; the upper end counts heads that may have one"
    return {
        "with_role": Number(float(certain.sum() / count), means, float(certain.sum() / count), float((possible | certain).sum() / count), "share"),
        "roles": Number(float(len(played)), "different roles among these heads, each head by its most certain role"),
        "own_role": Number(float(sum(heads == 1 for heads in played.values())), "heads whose most certain role belongs to no other head", unit="heads"),
        "heads": Number(float(count), "heads"),
    }


def _alike(study: "Study") -> Number:
    """Heads whose pattern is similar to that of some other head."""
    some = study.texts[:COMPARED_ON]
    found = []
    for done, text in enumerate(some, start=1):
        pairs = torch.from_numpy(similar(study.model, text, part=study.part, seed=study.seed)["similarity"].values).double()
        found.append(pairs.fill_diagonal_(0))
        study.progress("similar heads", done, len(some))

    def share(means: Float[Tensor, "d N N"]) -> Float[Tensor, " d"]:
        return (means.amax(-1) >= ALIKE).double().mean(-1)

    means = f"heads whose pattern has a similarity of {ALIKE} or more with that of another head"
    return bootstrap_statistic(torch.stack(found), torch.ones(len(found)), share, seed=study.seed, draws=DRAWS, means=means, unit="share")


def _curves(study: "Study") -> dict[str, AblationCurve]:
    """Increases in loss as heads are ablated: ranked by importance on some of the texts, measured on the others."""
    order, other = _ordered(study)
    shown = other[:SHOWN_ON]
    generator = torch.Generator().manual_seed(study.seed)
    random = [order[torch.randperm(len(order), generator=generator)] for _ in shown]
    return {
        "least important first": _curve(study, "ablating least important heads", other, [order] * len(other), SHARES),
        "at random": _curve(study, "ablating random heads", shown, random, COARSE),
        "most important first": _curve(study, "ablating most important heads", shown, [order.flip(0)] * len(shown), COARSE),
    }


def _ordered(study: "Study") -> tuple[Int[Tensor, "N two"], Int[Tensor, " n"]]:
    """The heads from least to most important on some texts, and the texts not used for the ranking."""
    tried = torch.tensor(study.ablation_texts)
    some = split_halves(len(tried), study.seed)[0] if len(tried) == len(study.texts) else torch.arange(len(tried))
    weights = study.counts[tried[some]]
    others = sorted(set(range(len(study.texts))) - set(tried[some].tolist()))
    return _order(weighted_mean(study.effects[some] * weights[:, None, None], weights)), torch.tensor(others)


def _order(importance: Float[Tensor, "L H"]) -> Int[Tensor, "N two"]:
    """The existing heads, from least to most important."""
    places = (~importance.isnan()).nonzero()
    return places[importance[places[:, 0], places[:, 1]].argsort()]


def _curve(study: "Study", doing: str, texts: Int[Tensor, " n"], orders: list[Tensor], shares: tuple[float, ...]) -> AblationCurve:
    rises = []
    for done, (number, order) in enumerate(zip(texts.tolist(), orders, strict=True), start=1):
        passage = study.passage(number)
        rises.append((joint_ablation_losses(passage, _plans(order, shares, study), zero_ablation) - passage.base) / loss_scale(study))
        study.progress(doing, done, len(texts))
    return AblationCurve(shares, torch.stack(rises), study.counts[texts])


def _plans(order: Int[Tensor, "N two"], shares: tuple[float, ...], study: "Study") -> Bool[Tensor, "S L H"]:
    return torch.stack([study.head_mask([(int(layer), int(head)) for layer, head in order[: round(share * len(order))]]) for share in shares])


def _can_go(curve: AblationCurve, study: "Study") -> Number:
    """The largest share of heads whose ablation increases the loss by less than the bar, with its interval."""
    found = bootstrap(curve.rises * curve.counts[:, None], curve.counts, study.seed)
    most = [
        max([share for share, rise in zip(curve.shares, rises.tolist(), strict=True) if rise < NEGLIGIBLE], default=0.0)
        for rises in (found.mean, found.high, found.low)
    ]
    means = f"heads that can be ablated together before {NEGLIGIBLE_TEXT[study.loss]}; ranked on one half of the texts, measured on the other"
    return Number(most[0], means, most[1], most[2], "share", CAN_GO)


def _verdict(numbers: dict[str, Number]) -> ClaimVerdict:
    (role, may_have), (duplicate, may_be), (gone, may_go) = (bounds(numbers[name]) for name in ("with_role", "alike", "can_go"))
    if role >= ALL and may_be <= SOME and may_go <= SOME:
        return "kept"
    if may_have < HALF or duplicate > HALF or gone > HALF:
        return "cut"
    return "corrected" if role > 0 else "inconclusive"


def _correction(numbers: dict[str, Number]) -> str:
    role, count, own = bounds(numbers["with_role"])[0], numbers["heads"].value, numbers["own_role"].value
    if role < HALF:
        return "Some heads do."
    return "Most have a role, but share it with other heads." if own < role * count / 2 else "Most heads do."


def _summary(study: "Study", numbers: dict[str, Number]) -> str:
    role, alike, gone, count = (numbers[name] for name in ("with_role", "alike", "can_go", "heads"))
    certain, possible = (round(end * count.value) for end in bounds(role))
    least, most = (percent(end) for end in bounds(gone))
    tasks = len(study.roles.task)
    different, own = numbers["roles"].value, numbers["own_role"].value
    first = f"{certain} of {count.value:.0f} heads certainly have one of the {tasks} roles that could be tested"
    first = f"{first} ({different:.0f} different roles, {own:.0f} of them held by a single head)" if certain else first
    second = f"for {possible - certain} more a role cannot be ruled out" if possible > certain else "no other head can have one"
    third = f"{percent(gone.value)} of the heads ({least} to {most}) can be ablated together before {NEGLIGIBLE_TEXT[study.loss]}"
    return f"{first}; {second}. {third}. {percent(alike.value)} have a pattern similar to another head's."


def _plot(curves: dict[str, AblationCurve], study: "Study") -> Plot:
    series = []
    for name, curve in curves.items():
        found = bootstrap(curve.rises * curve.counts[:, None], curve.counts, study.seed)
        series.append(Series(name, list(curve.shares), found.mean.tolist(), found.low.tolist(), found.high.tolist()))
    return Plot("line", "share of the heads ablated", f"increase in loss, {COST_UNITS[study.loss]}", series, reference=NEGLIGIBLE)


CAN_GO = "20 % of a translation model's heads, 40 % of BERT's (Michel 2019); 38 of 48 encoder heads, the model trained for it (Voita 2019)"

ENTRY = Claim(
    sentence="Each head learns a distinct, interpretable role.",
    source="Michel et al. 2019, Are Sixteen Heads Really Better than One?; Voita et al. 2019, Specialized Heads Do the Heavy Lifting",
    address="https://arxiv.org/abs/1905.09418",
    published="Up to 20 % of the heads of a translation model and 40 % of BERT's can be removed without a noticeable loss (Michel 2019). Of 48 encoder "
    "heads 38 were removed at 0.15 BLEU, in a model trained to do without; the most important ones had roles (Voita 2019).",
    definition="Interpretable: in one of the roles that headwise tests, the head certainly exceeds the best baseline by 0.05 or more (95 %, corrected for "
    f"all heads and roles). Distinct: no other head's pattern has a similarity of {ALIKE} or more (1 − Jensen–Shannon divergence / log 2). A head without one "
    "of these roles may have another that is not in the list. Removable: the heads that can be ablated together, least important first, before "
    f"{NEGLIGIBLE_TEXT['next']}; for models without a loss of their own, before {NEGLIGIBLE_TEXT['cosine']} or {NEGLIGIBLE_TEXT['kl']}.",
    refuted_by="Heads without a role, with a duplicate, or that can be removed.",
    rule=f"Kept: at least {ALL:.0%} of the heads certainly have a role, at most {SOME:.0%} have a duplicate and at most {SOME:.0%} can be removed. Cut: "
    f"certainly fewer than {HALF:.0%} can have a role, or more than {HALF:.0%} have a duplicate, or more than {HALF:.0%} can be removed. Corrected: in "
    "between, with some heads that certainly have a role. Heads are ranked on one half of the texts (for large models, on a few) and ablated on the others.",
    run=run,
)
