"""Every head writes the same number of numbers: is what they write equally large?"""

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
FACTOR = 1.5  # the loudest head against the quietest: from here on their say is not equal


@dataclass(frozen=True, eq=False)
class ShareExtremes:
    """The loudest and the quietest head of each layer, chosen on one half of the texts and measured on the other.

    Attributes:
        loud, quiet: their shares, [L].
        equal: 1 / H of each layer.
    """

    loudest: Int[Tensor, " L"]
    quietest: Int[Tensor, " L"]
    loud: Interval
    quiet: Interval
    equal: Float[Tensor, " L"]
    texts: Float[Tensor, "n L"]

    @property
    def uneven(self) -> int:
        """Layers where the loudest head certainly writes `FACTOR` times as much as the quietest."""
        return int((self.loud.low > FACTOR * self.quiet.high).sum())

    @property
    def even(self) -> int:
        """Layers where it certainly writes less than that."""
        return int((self.loud.high < FACTOR * self.quiet.low).sum())


def run(study: "Study") -> Card:
    """Shares of the length that heads write, against 1 / H."""
    few = study.too_few_texts(FEWEST, "how much each head writes")
    if few is not None:
        return few
    told: dict[str, Any] = {"texts": len(study.texts), "tokens": study.token_count}
    found = write_summary(study)
    if all(int((~layer.isnan()).sum()) < 2 for layer in found.share[0]):
        return Card("inconclusive", "Every layer has one head, which writes all: there is no other to have an equal say.", **told)
    ends = _ends(found, study.seed)
    layers = len(ends.equal)
    verdict = "cut" if ends.uneven > layers / 2 else "kept" if ends.even == layers else "corrected" if ends.uneven + ends.even == layers else "inconclusive"
    correction = f"Not in {ends.uneven} of {layers} layers." if verdict == "corrected" else ""
    numbers = _numbers(found, ends, study.seed)
    return Card(verdict, _summary(numbers, ends, layers, verdict), numbers, _plot(found), correction, **told)


def _ends(found: WriteSummary, seed: int) -> ShareExtremes:
    """Layers with one head are left out."""
    several = (~found.share[0].isnan()).sum(-1) > 1
    share, tokens = found.share[:, several], found.tokens
    chosen, measured = split_halves(len(tokens), seed)
    means = weighted_mean(share[chosen], tokens[chosen])
    loudest, quietest = means.nan_to_num(-1).argmax(-1), means.nan_to_num(2).argmin(-1)
    loud, quiet = (share[measured].gather(2, head.expand(len(measured), -1)[..., None])[..., 0] for head in (loudest, quietest))
    counts = tokens[measured]
    equal = 1 / (~share[0].isnan()).sum(-1).double()
    return ShareExtremes(loudest, quietest, bootstrap(loud, counts, seed), bootstrap(quiet, counts, seed), equal, (loud / quiet))


def _numbers(found: WriteSummary, ends: ShareExtremes, seed: int) -> dict[str, Number]:
    _, measured = split_halves(len(found.tokens), seed)
    counts = found.tokens[measured]
    several = (~found.share[0].isnan()).sum(-1) > 1
    shares = weighted_mean(found.share[:, several], found.tokens)
    spread = (-torch.xlogy(shares, shares)).nansum(-1) / torch.tensor([log(1 / equal) for equal in ends.equal.tolist()], dtype=torch.float64)
    return {
        "loudest": Number(
            float(ends.loud.mean.mean()), "share of the loudest head of a layer, mean over layers, on texts it was not chosen on", *_means(ends.loud)
        ),
        "quietest": Number(float(ends.quiet.mean.mean()), "likewise of the quietest", *_means(ends.quiet)),
        "equal": Number(float(ends.equal.mean()), "1 / H"),
        "ratio": mean_over_texts(ends.texts.median(1).values, counts, seed=seed, means="loudest against quietest, in the median layer"),
        "ratio, most": Number(float((ends.loud.mean / ends.quiet.mean).max()), "in the layer where it is most; highest of all, so it flatters"),
        "evenness": Number(float(spread.mean()), "entropy of the heads' shares over log H, mean over layers: 1 where all write alike"),
        "layers": Number(float(ends.uneven), f"where the loudest certainly writes {FACTOR} times as much as the quietest", unit="layers"),
    }


def _means(ends: Interval) -> tuple[float, float]:
    """The ends of the layers' intervals, averaged: no narrower than the interval of the mean."""
    return float(ends.low.mean()), float(ends.high.mean())


def _summary(numbers: dict[str, Number], ends: ShareExtremes, layers: int, verdict: str) -> str:
    loud, quiet, equal, ratio = (numbers[name] for name in ("loudest", "quietest", "equal", "ratio"))
    first = (
        f"The loudest head of a layer writes {percent(loud.value)} of the length of all that heads write there, the quietest {percent(quiet.value)}; an equal "
        f"say would be {percent(equal.value)}."
    )
    second = f"In the median layer that is {times(ratio.value)} as much ({between(ratio, '{:.1f}'.format)})."
    undecided = layers - ends.uneven - ends.even
    return f"{first} {second}" + (
        f" In {undecided} of {layers} layers the texts are too few to tell whether it is {FACTOR} times." if verdict == "inconclusive" else ""
    )


def _plot(found: WriteSummary) -> Plot:
    """Each head of each layer."""
    shares = weighted_mean(found.share, found.tokens)
    heads = (~shares.isnan()).nonzero()
    heads = heads[:: max(1, -(-len(heads) // 300))]
    x, y = [float(layer) for layer in heads[:, 0]], [float(shares[layer, head]) for layer, head in heads.tolist()]
    return Plot("points", "layer", "share of the length written", (Series("a head", x, y),), reference=1 / shares.shape[1])


ENTRY = Claim(
    sentence="All heads have an equal say.",
    source="Kobayashi et al. 2020 on measuring by length what attention passes on; Voita et al. 2019 on heads that matter",
    address="https://arxiv.org/abs/2004.10102",
    published="No share of heads. Voita et al. remove 38 of 48 encoder heads of a translation model at a cost of 0.15 BLEU.",
    definition=(
        "A head's say is its share of the lengths |w_h| of what the heads of its layer write through W_O, mean over tokens. Length is not effect: what is "
        "written may cancel, or be ignored by what comes after."
    ),
    refuted_by=f"Layers whose loudest head writes {FACTOR} times as much as the quietest.",
    rule=(
        "The loudest and the quietest head of each layer are chosen on half of the texts and measured on the other half. A layer is uneven where the lower "
        f"end of the loudest is above {FACTOR} times the upper end of the quietest, even where its upper end is below {FACTOR} times the lower end. Cut: more "
        "than half of the layers are uneven. Kept: all are even. Corrected: every layer is one or the other. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
