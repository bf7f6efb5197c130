"""W_O mixes all heads into one vector: what of them is lost by it, and do they write over one another?"""

from typing import TYPE_CHECKING

import torch

from headwise.analysis.intervals import bootstrap
from headwise.axes import Float, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import mean_over_texts, texts_needed
from headwise.experiments.measurements.write_summary import WriteSummary, write_summary
from headwise.experiments.number_text import percent

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 4  # texts
BAR = 0.01  # of the energy of what is said: more than this is a loss


def run(study: "Study") -> Card:
    """Compute back, from what each layer adds, what each of its heads said."""
    few = study.too_few_texts(FEWEST, "what W_O loses")
    if few is not None:
        return few
    found = write_summary(study)
    lost = found.lost.nansum(2) / found.said.nansum(2)
    ends = bootstrap(lost * found.tokens[:, None], found.tokens, study.seed)
    losing, keeping = int((ends.low > BAR).sum()), int((ends.high < BAR).sum())
    layers = lost.shape[1]
    verdict = "kept" if losing > layers / 2 else "cut" if keeping == layers else "corrected" if losing + keeping == layers else "inconclusive"
    numbers = _numbers(found, lost, study.seed)
    says, correction = _summary(found, numbers, losing, layers), f"It does in {losing} of {layers} layers." if verdict == "corrected" else ""
    if verdict == "inconclusive":
        says = f"{says} {_needed(numbers['lost'], len(study.texts))}"
    return Card(verdict, says, numbers, _plot(found), correction, len(study.texts), int(found.tokens.sum()))


def _numbers(found: WriteSummary, lost: Float[Tensor, "n L"], seed: int) -> dict[str, Number]:
    tokens = found.tokens
    by_head = (found.lost.sum(0) / found.said.sum(0)).nan_to_num(-1)
    worst = int(lost.mean(0).argmax())
    sizes = [len(matrix.inverse.t()) for matrix in found.matrices]
    ranks, effective = [matrix.rank for matrix in found.matrices], [matrix.effective_rank for matrix in found.matrices]
    meeting = found.added / found.wrote.nansum(2)
    random = torch.stack([matrix.singular.square().sum() / len(matrix.inverse.t()) for matrix in found.matrices])
    passed = found.wrote.nansum(2) / found.said.nansum(2) / random
    return {
        "lost": mean_over_texts(
            lost.mean(1), tokens, seed=seed, means="of the energy of what heads say, what cannot be computed back from what their layer adds; mean over layers"
        ),
        "lost, worst layer": mean_over_texts(lost[:, worst], tokens, seed=seed, means=f"the same in layer {worst}, where most is lost on these texts"),
        "lost, worst head": Number(float(by_head.max()), "the same of the head that loses most; highest of all, so it flatters"),
        "rank": Number(sum(ranks) / len(ranks), "numerical rank of W_O, mean over layers"),
        "rank, lowest": Number(float(min(ranks)), "the lowest of any layer"),
        "directions": Number(sum(sizes) / len(sizes), "H · E: numbers a token that the heads of a layer say"),
        "effective rank": Number(sum(effective) / len(effective), "exp of the entropy of W_O's squared singular values' shares, mean over layers"),
        "passed": mean_over_texts(passed.mean(1), tokens, seed=seed, means="energy let through, against what W_O lets through of a random direction"),
        "meeting": mean_over_texts(
            meeting.mean(1),
            tokens,
            seed=seed,
            means="|Σ writes|² / Σ |writes|²: 1 where writes of heads do not meet, 0 where they cancel, H where all are alike",
        ),
        "meeting, least": Number(float(meeting.mean(0).min()), "the same in the layer where it is least"),
        "meeting, most": Number(float(meeting.mean(0).max()), "the same in the layer where it is most"),
    }


def _summary(found: WriteSummary, numbers: dict[str, Number], losing: int, layers: int) -> str:
    lost, worst, meeting = numbers["lost"], numbers["lost, worst layer"], numbers["meeting"]
    first = f"From what a layer adds, {percent(1 - lost.value)} of what its heads said can be computed back; {percent(1 - worst.value)} in the worst layer."
    least, most = numbers["meeting, least"].value, numbers["meeting, most"].value
    effective, directions = numbers["effective rank"].value, numbers["directions"].value
    return (
        f"{first} {losing} of {layers} layers lose more than {percent(BAR)}. W_O favours some directions: its effective rank is {effective:.0f} of "
        f"{directions:.0f}. The heads' sum has {meeting.value:.2f} times the energy of its parts, {least:.2f} to {most:.2f} by layer: below 1 heads work "
        "against one another, above 1 they pull one way."
    )


def _needed(lost: Number, texts: int) -> str:
    needed = texts_needed(lost, BAR, texts)
    return "" if needed is None or needed <= texts else f"About {needed} texts would be needed."


def _plot(found: WriteSummary) -> Plot:
    layers = [float(layer) for layer in range(len(found.matrices))]
    kept = 1 - (found.lost.nansum(2).sum(0) / found.said.nansum(2).sum(0))
    sizes = [len(matrix.inverse.t()) for matrix in found.matrices]
    effective = [matrix.effective_rank / size for matrix, size in zip(found.matrices, sizes, strict=True)]
    meeting = found.added.sum(0) / found.wrote.nansum(2).sum(0)
    series = (
        Series("computed back", layers, kept.tolist()),
        Series("effective rank / H·E", layers, effective),
        Series("energy of the sum / of its parts", layers, meeting.tolist()),
    )
    return Plot("line", "layer", "share", series, reference=1.0)


ENTRY = Claim(
    sentence="W_O loses information.",
    source="Vaswani et al. 2017, section 3.2.2, where W_O is defined; Elhage et al. 2021 on what heads add",
    address="https://arxiv.org/abs/1706.03762",
    published="No number for it. W_O is a matrix of H·E × M, 512 × 512 in the base model: a square one of full rank can be undone.",
    definition=(
        "Lost is the part of the energy of what heads say, before W_O, that the pseudo-inverse of W_O does not bring back from what the layer adds, as exact "
        "as the weights' dtype holds it. What later layers do with it is not asked."
    ),
    refuted_by="Less than 1 % lost in every layer.",
    rule=(
        "Kept: in more than half of the layers the lower end of the loss is above 1 %. Cut: in every layer its upper end is below 1 %. Corrected: every "
        "layer is certainly on one side. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
