"""Claim: more heads is strictly better. Judged on small models trained with different numbers of heads."""

from math import exp
from typing import TYPE_CHECKING

import torch

from headwise.axes import Float, Tensor
from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import side_of
from headwise.experiments.estimates.seed_interval import mean_over_seeds, paired_difference
from headwise.experiments.trained import stored_results as results

if TYPE_CHECKING:
    from headwise.experiments.study import Study

PERPLEXITY = {1: 5.29, 4: 5.00, 8: 4.92, 16: 4.91, 32: 5.01}  # Vaswani et al. 2017, table 3, rows (A), and the base model for h = 8


def run(study: "Study") -> Card:
    """Judge the stored training results; the model under study is not used."""
    return judge(results.read("more_heads"))


def judge(found: dict) -> Card:
    """Derive the verdict from the losses of all training runs."""
    heads, table = losses(found)
    best = int(table.mean(0).argmin())
    last = len(heads) - 1
    steps = {
        (a, a + 1): paired_difference(table, a + 1, a, last, f"change of the loss from h = {heads[a]} to {heads[a + 1]}", "nats a letter") for a in range(last)
    }
    beyond = paired_difference(table, last, best, last, f"loss at h = {heads[last]} less that at h = {heads[best]}, the lowest", "nats a letter")
    verdict = _verdict(list(steps.values()), beyond)
    numbers = {
        **{f"loss, h = {h}": _loss(h, table[:, place].tolist()) for place, h in enumerate(heads)},
        **{f"{heads[a]} to {heads[b]} heads": number for (a, b), number in steps.items()},
        "most against best": beyond,
        **{f"cost, h = {h}": Number(found["cost"][str(h)], "CPU time of a training step, relative to one head") for h in heads},
    }
    return Card(
        verdict, _summary(heads, table, best, beyond, verdict, found), numbers, _plot(heads, table), "Better up to a point." if verdict == "corrected" else ""
    )


def losses(found: dict) -> tuple[list[int], Float[Tensor, "seeds kinds"]]:
    """The numbers of heads, and the held-out loss by seed and number of heads."""
    heads, seeds = found["settings"]["heads"], found["settings"]["seeds"]
    by = {(model["heads"], model["seed"]): model["loss"] for model in found["models"]}
    return heads, torch.tensor([[by[h, seed] for h in heads] for seed in seeds], dtype=torch.float64)


def _verdict(steps: list[Number], beyond: Number) -> ClaimVerdict:
    sides = [side_of(step, 0.0) for step in steps]
    if all(one == "below" for one in sides):
        return "kept"
    if "above" not in (*sides, side_of(beyond, 0.0)):
        return "inconclusive"
    return "corrected" if "below" in sides else "cut"


def _loss(heads: int, values: list[float]) -> Number:
    published = f"perplexity {PERPLEXITY[heads]:.2f} a word piece" if heads in PERPLEXITY else None
    return mean_over_seeds(values, f"held-out loss; perplexity {exp(sum(values) / len(values)):.3f} a letter", "nats a letter", published)


def _summary(heads: list[int], table: Float[Tensor, "seeds kinds"], best: int, beyond: Number, verdict: ClaimVerdict, found: dict) -> str:
    mean = table.mean(0).tolist()
    same = f"For the same decoder of width {found['settings']['width']}, trained with {len(table)} seeds per number of heads,"
    fall = paired_difference(table, best, 0, len(heads) - 1)
    fallen = f"{same} the loss falls from {mean[0]:.3f} nats with one head to {mean[best]:.3f} with {heads[best]} ({_difference(fall)})"
    first = fallen if best else f"{same} one head is best, with {mean[0]:.3f} nats"
    more = f", and is {mean[-1]:.3f} with {heads[-1]} ({_difference(beyond)})." if best < len(heads) - 1 else "."
    cost = f" A step with {heads[-1]} heads costs {found['cost'][str(heads[-1])]:.1f} times as much as with one."
    doubt = (
        " With these seeds, no doubling of the heads certainly increases the loss, and not every one certainly lowers it." if verdict == "inconclusive" else ""
    )
    return first + more + cost + doubt


def _difference(number: Number) -> str:
    return f"difference {number.low:+.3f} to {number.high:+.3f}"


def _plot(heads: list[int], table: Float[Tensor, "seeds kinds"]) -> Plot:
    numbers = [mean_over_seeds(table[:, place].tolist()) for place in range(len(heads))]
    ours = Series("held-out loss", heads, [n.value for n in numbers], [n.low or 0.0 for n in numbers], [n.high or 0.0 for n in numbers])
    return Plot("line", "heads, at the same width", "nats a letter", [ours], log_x=True)


ENTRY = Claim(
    sentence="More heads is strictly better.",
    source="Vaswani et al. 2017, Attention Is All You Need, section 6.2 and table 3 (A)",
    address="https://arxiv.org/abs/1706.03762",
    published="At constant computation, perplexity 5.29, 5.00, 4.92, 4.91 and 5.01 with 1, 4, 8, 16 and 32 heads: quality drops with one head or too many.",
    definition="The same small decoder is trained with 1 to 32 heads at the same width, on the same batches of text, with three seeds each. Better means a "
    "lower loss on held-out text.",
    refuted_by="A number of heads beyond which the loss is certainly higher.",
    rule="Kept: every doubling certainly lowers the loss. Corrected: some doubling certainly lowers it, and another, or the step from the best number of heads "
    "to the largest, certainly raises it. Cut: one raises it and none lowers it. Inconclusive otherwise. Differences are paired by seed; their intervals hold "
    "for all doublings simultaneously.",
    run=run,
    about_model=False,
)
