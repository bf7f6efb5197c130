"""Claim: all heads have an equal say. Compares the norms of the heads' writes within each layer."""

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.intervals import Interval, bootstrap
from headwise.axes import Float, Int, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import mean_over_texts
from headwise.experiments.estimates.split_halves import split_halves, weighted_mean
from headwise.experiments.measurements.write_summary import WriteSummary, write_summary
from headwise.experiments.number_text import between, percent, times

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 6  # texts: half to choose on, half to measure on
FACTOR = 1.5  # ratio of the largest share to the smallest from which a layer counts as uneven


@dataclass(frozen=True, eq=False)
class ShareExtremes:
    """The heads with the largest and the smallest share of each layer, chosen on one half of the texts and measured on the other.

    Attributes:
        largest_head, smallest_head: their indices, [L].
        largest, smallest: their shares, [L].
        equal: 1 / H for each layer.
        ratios: the largest share over the smallest, by text and layer.
    """

    largest_head: Int[Tensor, " L"]
    smallest_head: Int[Tensor, " L"]
    largest: Interval
    smallest: Interval
    equal: Float[Tensor, " L"]
    ratios: Float[Tensor, "n L"]

    @property
    def uneven(self) -> int:
        """Layers where the largest share is certainly at least `FACTOR` times the smallest."""
        return int((self.largest.low > FACTOR * self.smallest.high).sum())

    @property
    def even(self) -> int:
        """Layers where the ratio is certainly smaller than that."""
        return int((self.largest.high < FACTOR * self.smallest.low).sum())


def run(study: "Study") -> Card:
    """Compare each head's share of its layer's write norms with 1 / H."""
    few = study.too_few_texts(FEWEST, "how much each head writes")
    if few is not None:
        return few
    fields: dict[str, Any] = {"texts": len(study.texts), "tokens": study.token_count}
    found = write_summary(study)
    if all(int((~layer.isnan()).sum()) < 2 for layer in found.share[0]):
        return Card("inconclusive", "Every layer has a single head, so shares within a layer cannot be compared.", **fields)
    ends = _ends(found, study.seed)
    layers = len(ends.equal)
    verdict = "cut" if ends.uneven > layers / 2 else "kept" if ends.even == layers else "corrected" if ends.uneven + ends.even == layers else "inconclusive"
    correction = f"Not in {ends.uneven} of {layers} layers." if verdict == "corrected" else ""
    numbers = _numbers(found, ends, study.seed)
    return Card(verdict, _summary(numbers, ends, layers, verdict), numbers, _plot(found), correction, **fields)


def _ends(found: WriteSummary, seed: int) -> ShareExtremes:
    """The extremes of every layer that has more than one head."""
    several = (~found.share[0].isnan()).sum(-1) > 1
    share, tokens = found.share[:, several], found.tokens
    chosen, measured = split_halves(len(tokens), seed)
    means = weighted_mean(share[chosen], tokens[chosen])
    largest_head, smallest_head = means.nan_to_num(-1).argmax(-1), means.nan_to_num(2).argmin(-1)
    largest, smallest = (share[measured].gather(2, head.expand(len(measured), -1)[..., None])[..., 0] for head in (largest_head, smallest_head))
    counts = tokens[measured]
    equal = 1 / (~share[0].isnan()).sum(-1).double()
    return ShareExtremes(largest_head, smallest_head, bootstrap(largest, counts, seed), bootstrap(smallest, counts, seed), equal, (largest / smallest))


def _numbers(found: WriteSummary, ends: ShareExtremes, seed: int) -> dict[str, Number]:
    _, measured = split_halves(len(found.tokens), seed)
    counts = found.tokens[measured]
    several = (~found.share[0].isnan()).sum(-1) > 1
    shares = weighted_mean(found.share[:, several], found.tokens)
    spread = (-torch.xlogy(shares, shares)).nansum(-1) / torch.tensor([log(1 / equal) for equal in ends.equal.tolist()], dtype=torch.float64)
    return {
        "loudest": Number(
            float(ends.largest.mean.mean()),
            "largest share of any head in a layer, mean over layers, measured on texts not used to choose the head",
            *_means(ends.largest),
        ),
        "quietest": Number(float(ends.smallest.mean.mean()), "smallest share of any head in a layer, measured likewise", *_means(ends.smallest)),
        "equal": Number(float(ends.equal.mean()), "1 / H"),
        "ratio": mean_over_texts(ends.ratios.median(1).values, counts, seed=seed, means="largest share over the smallest, in the median layer"),
        "ratio, most": Number(
            float((ends.largest.mean / ends.smallest.mean).max()), "the same ratio in the layer where it is highest; a maximum over layers, so biased upwards"
        ),
        "evenness": Number(float(spread.mean()), "entropy of the heads' shares over log H, mean over layers; 1 if all shares are equal"),
        "layers": Number(float(ends.uneven), f"where the largest share is certainly at least {FACTOR} times the smallest", unit="layers"),
    }


def _means(ends: Interval) -> tuple[float, float]:
    """The mean of the layers' interval ends: at least as wide as the interval of the mean."""
    return float(ends.low.mean()), float(ends.high.mean())


def _summary(numbers: dict[str, Number], ends: ShareExtremes, layers: int, verdict: str) -> str:
    largest, smallest, equal, ratio = (numbers[name] for name in ("loudest", "quietest", "equal", "ratio"))
    first = (
        f"On average over layers, the head with the largest writes has {percent(largest.value)} of the summed norm of its layer's writes, the head with the "
        f"smallest {percent(smallest.value)}; equal shares would be {percent(equal.value)}."
    )
    second = f"In the median layer the largest share is {times(ratio.value)} the smallest ({between(ratio, '{:.1f}'.format)})."
    undecided = layers - ends.uneven - ends.even
    return f"{first} {second}" + (
        f" In {undecided} of {layers} layers there are too few texts to decide whether the ratio exceeds {FACTOR}." if verdict == "inconclusive" else ""
    )


def _plot(found: WriteSummary) -> Plot:
    """Every head's share, by layer; at most 300 heads."""
    shares = weighted_mean(found.share, found.tokens)
    heads = (~shares.isnan()).nonzero()
    heads = heads[:: max(1, -(-len(heads) // 300))]
    x, y = [float(layer) for layer in heads[:, 0]], [float(shares[layer, head]) for layer, head in heads.tolist()]
    return Plot("points", "layer", "share of write norms", (Series("a head", x, y),), reference=1 / shares.shape[1])


ENTRY = Claim(
    sentence="All heads have an equal say.",
    source="Kobayashi et al. 2020 on norm-based analysis of attention; Voita et al. 2019 on which heads matter",
    address="https://arxiv.org/abs/2004.10102",
    published="No per-head shares. Voita et al. prune 38 of 48 encoder heads of a translation model at a cost of 0.15 BLEU.",
    definition=(
        "A head's say is its share of the write norms |w_h| of its layer, where w_h is what head h adds to the residual stream through W_O; mean over tokens. "
        "A norm is not an effect: writes may cancel, or later layers may ignore them."
    ),
    refuted_by=f"Layers in which the largest share is at least {FACTOR} times the smallest.",
    rule=(
        "The heads with the largest and the smallest share of each layer are chosen on one half of the texts and measured on the other. A layer is uneven if "
        f"the lower end of the largest share exceeds {FACTOR} times the upper end of the smallest; it is even if the upper end of the largest is below "
        f"{FACTOR} times the lower end of the smallest. Cut: more than half of the layers are uneven. Kept: all are even. Corrected: every layer is one or the "
        "other, and neither of these holds. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
