"""Which head plays a role, if any: chosen on one half of the texts, judged on the other, against the best simpler rule."""

from dataclasses import dataclass

import torch

from headwise.analysis.intervals import Interval, bootstrap
from headwise.analysis.roles.evidence import RIVAL, Evidence
from headwise.axes import Bool, Float, Int, Tensor

MARGIN = 0.05  # by how much a head must beat the baseline, for certain, to be said to play the role


@dataclass(frozen=True, eq=False)
class RoleVerdict:
    """What came out for one task.

    Attributes:
        score: of every head, over all texts.
        gain: score less baseline, of every head, over all texts.
        best: layer and head of the highest score on the first half.
        baseline: the name of the simpler rule that was best on the first half.
        held: the chosen head's score on the other half.
        held_baseline: the chosen rule's score there.
        held_gain: their difference there.
        found: the lower end of `held_gain` lies above the margin.
    """

    task: str
    score: Interval
    gain: Interval
    best: tuple[int, int]
    baseline: str
    held: Interval
    held_baseline: Interval
    held_gain: Interval
    found: bool
    texts: int
    questions: int


def judge(evidence: Evidence, margin: float = MARGIN, seed: int = 0) -> RoleVerdict:
    """Choose on one half, judge on the other."""
    counts = evidence.counts
    order = torch.randperm(len(counts), generator=torch.Generator().manual_seed(seed))
    first, second = order[::2], order[1::2]
    best = _largest(_mean(evidence.scores, counts, first))
    name = _best_rule(evidence, first, best)
    score, rule = evidence.scores[:, best[0], best[1]], _rule(evidence, name)
    own = rule if rule.dim() == 1 else rule[:, best[0], best[1]]
    held, held_baseline, held_gain = (bootstrap(x[second], counts[second], seed) for x in (score, own, score - own))
    gain = evidence.scores - _hardest(evidence, name)
    return RoleVerdict(
        evidence.task,
        bootstrap(evidence.scores, counts, seed),
        bootstrap(gain, counts, seed),
        best,
        name,
        held,
        held_baseline,
        held_gain,
        bool(held_gain.low > margin),
        len(counts),
        int(counts.sum()),
    )


def _mean(sums: Float[Tensor, "n *shape"], counts: Float[Tensor, " n"], chosen: Int[Tensor, " m"]) -> Float[Tensor, "*shape"]:
    return sums[chosen].sum(0) / counts[chosen].sum()


def _largest(scores: Float[Tensor, "L H"]) -> tuple[int, int]:
    place = int(scores.nan_to_num(-torch.inf).argmax())
    return place // scores.shape[1], place % scores.shape[1]


def _best_rule(evidence: Evidence, chosen: Int[Tensor, " m"], best: tuple[int, int]) -> str:
    """The name of the hardest rule for this head on these texts."""
    means = {name: float(_mean(sums, evidence.counts, chosen)) for name, sums in evidence.guesses.items()}
    if evidence.rival is not None:
        means[RIVAL] = float(_mean(evidence.rival, evidence.counts, chosen)[best])
    return max(means, key=lambda name: means[name])


def _rule(evidence: Evidence, name: str) -> Tensor:
    return evidence.rival if name == RIVAL and evidence.rival is not None else evidence.guesses[name]


def _hardest(evidence: Evidence, name: str) -> Float[Tensor, "n L H"]:
    """The rule that every head is measured against; with rivals, for each head the harder of the two."""
    rule = evidence.guesses[name if name != RIVAL else max(evidence.guesses, key=lambda rule: float(evidence.guesses[rule].sum()))]
    fixed = rule[:, None, None].expand(evidence.scores.shape)
    if evidence.rival is None:
        return fixed
    harder = evidence.rival.sum(0) > fixed.sum(0)
    return torch.where(harder, evidence.rival, fixed)


def sure(gain: Interval, heads: int, margin: float) -> Bool[Tensor, "L H"]:
    """The heads whose gain is above the margin for certain, all of them at once (Bonferroni)."""
    allowed = torch.special.ndtri(torch.tensor(1 - 0.025 / max(heads, 1), dtype=torch.float64))
    return gain.mean - allowed * gain.spread > margin
