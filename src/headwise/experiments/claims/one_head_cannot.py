"""One head cannot learn all of these at once."""

from collections.abc import Sequence
from math import comb
from typing import TYPE_CHECKING, Any

from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.seed_interval import mean_over_seeds
from headwise.experiments.trained import stored_results as results

if TYPE_CHECKING:
    from headwise.experiments.study import Study

SOLVED = 0.95  # share of texts with both answers right
CHANCE = 0.05
TARGETS = ("the token before", "the match")
WORDS = {1: "one head", 2: "two heads"}
Trained = Sequence[dict[str, Any]]


def run(study: "Study") -> Card:
    """Read what came out of training; the model at hand plays no part."""
    return judge(results.read("two_patterns"))


def judge(found: dict) -> Card:
    """From what one head and two can do to a verdict."""
    by = {heads: [model for model in found["models"] if model["heads"] == heads] for heads in WORDS}
    solved = {heads: sum(model["both"] > SOLVED for model in models) for heads, models in by.items()}
    numbers = {}
    for heads, words in WORDS.items():
        numbers[f"{words}, trainings that solve it"] = _share(solved[heads], len(by[heads]))
        numbers[f"{words}, the token before"] = mean_over_seeds(
            [model["before"] for model in by[heads]], "right answers; mean over trainings", "share of texts"
        )
        numbers[f"{words}, the match"] = mean_over_seeds([model["matched"] for model in by[heads]], "right answers; mean over trainings", "share of texts")
        numbers |= _looks(words, _best(by[heads]))
    luck = fisher(solved[1], len(by[1]), solved[2], len(by[2]))
    numbers["chance of such a difference"] = Number(luck, "if the number of heads made none: Fisher's exact test, one-sided")
    return Card(_verdict(solved, luck), _summary(by, solved), numbers, _plot(by))


def fisher(ours: int, of_ours: int, theirs: int, of_theirs: int) -> float:
    """How often at least so many of theirs would be among all that are, if they were dealt out at random.

    Example:
        >>> fisher(0, 3, 3, 3)
        0.05
    """
    every = ours + theirs
    ways = sum(comb(of_theirs, k) * comb(of_ours, every - k) for k in range(theirs, min(of_theirs, every) + 1))
    return ways / comb(of_ours + of_theirs, every)


def _verdict(solved: dict[int, int], luck: float) -> ClaimVerdict:
    if solved[1]:
        return "cut"
    return "kept" if luck < CHANCE else "inconclusive"


def _share(solved: int, trainings: int) -> Number:
    """With Wilson's interval."""
    z, p = 1.96, solved / trainings
    middle, half = p + z * z / (2 * trainings), z * (p * (1 - p) / trainings + z * z / (4 * trainings**2)) ** 0.5
    low, high = ((middle + sign * half) / (1 + z * z / trainings) for sign in (-1, 1))
    return Number(p, f"both right in over {SOLVED:.0%} of texts; {solved} of {trainings}", max(low, 0.0), min(high, 1.0), "share of trainings")


def _best(models: Trained) -> dict[str, Any]:
    return min(models, key=lambda model: model["loss"])


def _looks(words: str, model: dict[str, Any]) -> dict[str, Number]:
    """Where the heads of a training look; the head that looks more at the token before comes first."""
    pairs = sorted(model["weights"], key=lambda pair: -pair[0])
    names = [words] if len(pairs) == 1 else [f"{words}, {place}" for place in ("first", "second")]
    return {
        f"{name}, weight on {target}": Number(weight, "mean over texts, of the best training", unit="share")
        for name, pair in zip(names, pairs, strict=True)
        for target, weight in zip(TARGETS, pair, strict=True)
    }


def _summary(by: dict[int, list[dict]], solved: dict[int, int]) -> str:
    one, two = (_best(by[heads]) for heads in WORDS)
    first, second = sorted(two["weights"], key=lambda pair: -pair[0])
    looks = f"its weight lies on the token before ({one['weights'][0][0]:.2f}) and on the match ({one['weights'][0][1]:.2f})"
    return (
        f"Asked for the token before and for an earlier match at once, one head gives both in {solved[1]} of {len(by[1])} trainings, two heads of the same "
        f"width together in {solved[2]} of {len(by[2])}. The best single head has both right in {one['both']:.0%} of texts: {looks}. Of two, one "
        f"looks at the token before ({first[0]:.2f}) and the other at the match ({second[1]:.2f})."
    )


def _plot(by: dict[int, list[dict]]) -> Plot:
    steps = len(by[1][0]["curve"])
    across = [(place + 0.5) / steps for place in range(steps)]
    series = [Series(f"{words}, best of {len(by[heads])}", across, _best(by[heads])["curve"]) for heads, words in WORDS.items()]
    return Plot("line", "share of the training", "nats of both answers", series)


ENTRY = Claim(
    sentence="One head cannot learn all of these at once.",
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2: with a single head, averaging inhibits attending to different places",
    address="https://arxiv.org/abs/1706.03762",
    published="Said, and not measured there but for the perplexity of one head: 5.29 against 4.92 with eight.",
    definition="At the last token two answers are asked for: the letter of the token before, and the letter of the one earlier token with the same symbol. "
    "One layer of attention and two of a network are trained with one head and with two, at the same width and number of parameters, eight seeds each.",
    refuted_by="One training with one head that gives both answers in over 95 % of texts.",
    rule="Cut if one head solves it in any training; kept if it does in none and two heads do in certainly more (Fisher's exact test, 5 %); else nothing "
    "can be told.",
    run=run,
    about_model=False,
)
