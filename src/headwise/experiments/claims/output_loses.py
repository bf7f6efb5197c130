"""Claim: W_O loses information. Reconstructs the heads' outputs z from the layer's output, and measures how their writes interfere."""

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
BAR = 0.01  # share of the energy of z that counts as a loss


def run(study: "Study") -> Card:
    """Reconstruct each head's z from what its layer adds to the residual stream."""
    few = study.too_few_texts(FEWEST, "the information lost in W_O")
    if few is not None:
        return few
    found = write_summary(study)
    lost = found.lost.nansum(2) / found.z.nansum(2)
    ends = bootstrap(lost * found.tokens[:, None], found.tokens, study.seed)
    losing, keeping = int((ends.low > BAR).sum()), int((ends.high < BAR).sum())
    layers = lost.shape[1]
    verdict = "kept" if losing > layers / 2 else "cut" if keeping == layers else "corrected" if losing + keeping == layers else "inconclusive"
    numbers = _numbers(found, lost, study.seed)
    summary, correction = _summary(found, numbers, losing, layers), f"It does in {losing} of {layers} layers." if verdict == "corrected" else ""
    if verdict == "inconclusive":
        summary = f"{summary} {_needed(numbers['lost'], len(study.texts))}"
    return Card(verdict, summary, numbers, _plot(found), correction, len(study.texts), int(found.tokens.sum()))


def _numbers(found: WriteSummary, lost: Float[Tensor, "n L"], seed: int) -> dict[str, Number]:
    tokens = found.tokens
    by_head = (found.lost.sum(0) / found.z.sum(0)).nan_to_num(-1)
    worst = int(lost.mean(0).argmax())
    sizes = [len(matrix.inverse.t()) for matrix in found.matrices]
    ranks, effective = [matrix.rank for matrix in found.matrices], [matrix.effective_rank for matrix in found.matrices]
    interference = found.added / found.write.nansum(2)
    random = torch.stack([matrix.singular.square().sum() / len(matrix.inverse.t()) for matrix in found.matrices])
    passed = found.write.nansum(2) / found.z.nansum(2) / random
    return {
        "lost": mean_over_texts(
            lost.mean(1), tokens, seed=seed, means="share of the energy of z that cannot be reconstructed from the layer's output; mean over layers"
        ),
        "lost, worst layer": mean_over_texts(lost[:, worst], tokens, seed=seed, means=f"the same in layer {worst}, where it is largest on these texts"),
        "lost, worst head": Number(float(by_head.max()), "the same for the head that loses most; a maximum over heads, so biased upwards"),
        "rank": Number(sum(ranks) / len(ranks), "numerical rank of W_O, mean over layers"),
        "rank, lowest": Number(float(min(ranks)), "the lowest of any layer"),
        "directions": Number(sum(sizes) / len(sizes), "H · E: dimensions of the concatenated z of a layer"),
        "effective rank": Number(sum(effective) / len(effective), "exp of the entropy of W_O's normalised squared singular values, mean over layers"),
        "passed": mean_over_texts(passed.mean(1), tokens, seed=seed, means="energy of the writes over that of z, relative to a random direction through W_O"),
        "meeting": mean_over_texts(
            interference.mean(1),
            tokens,
            seed=seed,
            means="|Σ writes|² / Σ |writes|²: 1 if the heads' writes are orthogonal, 0 if they cancel, H if they are identical",
        ),
        "meeting, least": Number(float(interference.mean(0).min()), "the same in the layer where it is smallest"),
        "meeting, most": Number(float(interference.mean(0).max()), "the same in the layer where it is largest"),
    }


def _summary(found: WriteSummary, numbers: dict[str, Number], losing: int, layers: int) -> str:
    lost, worst, interference = numbers["lost"], numbers["lost, worst layer"], numbers["meeting"]
    first = (
        f"From a layer's output, {percent(1 - lost.value)} of the energy of its heads' z can be reconstructed; {percent(1 - worst.value)} in the worst layer."
    )
    least, most = numbers["meeting, least"].value, numbers["meeting, most"].value
    effective, directions = numbers["effective rank"].value, numbers["directions"].value
    return (
        f"{first} {losing} of {layers} layers lose more than {percent(BAR)}. W_O favours some directions: its effective rank is {effective:.0f} of "
        f"{directions:.0f}. The sum of the heads' writes has {interference.value:.2f} times the summed energy of the writes, {least:.2f} to {most:.2f} by "
        "layer. Below 1 the writes partly cancel, above 1 they point in similar directions."
    )


def _needed(lost: Number, texts: int) -> str:
    needed = texts_needed(lost, BAR, texts)
    return "" if needed is None or needed <= texts else f"About {needed} texts would be needed."


def _plot(found: WriteSummary) -> Plot:
    layers = [float(layer) for layer in range(len(found.matrices))]
    kept = 1 - (found.lost.nansum(2).sum(0) / found.z.nansum(2).sum(0))
    sizes = [len(matrix.inverse.t()) for matrix in found.matrices]
    effective = [matrix.effective_rank / size for matrix, size in zip(found.matrices, sizes, strict=True)]
    interference = found.added.sum(0) / found.write.nansum(2).sum(0)
    series = (
        Series("reconstructed", layers, kept.tolist()),
        Series("effective rank / H·E", layers, effective),
        Series("energy of the sum / summed energy", layers, interference.tolist()),
    )
    return Plot("line", "layer", "share", series, reference=1.0)


ENTRY = Claim(
    sentence="W_O loses information.",
    source="Vaswani et al. 2017, section 3.2.2, where W_O is defined; Elhage et al. 2021 on heads as independent additive contributions",
    address="https://arxiv.org/abs/1706.03762",
    published="No number. W_O is a matrix of H·E × M, 512 × 512 in the base model; a square matrix of full rank is invertible.",
    definition=(
        "The loss is the share of the energy of z (the heads' outputs before W_O) that the pseudo-inverse of W_O does not recover from the layer's output, at "
        "the precision of the weights' dtype. Whether later layers use it is not tested."
    ),
    refuted_by="A loss below 1 % in every layer.",
    rule=(
        "Kept: in more than half of the layers the lower end of the loss is above 1 %. Cut: in every layer its upper end is below 1 %. Corrected: every "
        "layer is certainly on one side or the other, and neither of these holds. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
