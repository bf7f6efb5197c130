"""Claim: one head cannot learn all of these at once. Judged on small models trained on a task with two attention patterns."""

from collections.abc import Sequence
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
    """Judge the stored training results; the model under study is not used."""
    return judge(results.read("two_patterns"))


def judge(found: dict) -> Card:
    """Derive the verdict from the accuracies of models with one head and with two."""
    by = {heads: [model for model in found["models"] if model["heads"] == heads] for heads in WORDS}
    solved = {heads: sum(model["both"] > SOLVED for model in models) for heads, models in by.items()}
    numbers = {}
    for heads, words in WORDS.items():
        numbers[f"{words}, trainings that solve it"] = _share(solved[heads], len(by[heads]))
        numbers[f"{words}, the token before"] = mean_over_seeds(
            [model["before"] for model in by[heads]], "correct answers, mean over training runs", "share of texts"
        )
        numbers[f"{words}, the match"] = mean_over_seeds(
            [model["matched"] for model in by[heads]], "correct answers, mean over training runs", "share of texts"
        )
        numbers |= _looks(words, _best(by[heads]))
    p_value = fisher(solved[1], len(by[1]), solved[2], len(by[2]))
    numbers["chance of such a difference"] = Number(p_value, "p-value under equal success rates: Fisher's exact test, one-sided")
    return Card(_verdict(solved, p_value), _summary(by, solved), numbers, _plot(by))


def fisher(first: int, of_first: int, second: int, of_second: int) -> float:
    """One-sided p-value of Fisher's exact test that the second group's success rate is higher.

    Args:
        first: successes in the first group, of `of_first` runs.
        second: successes in the second group, of `of_second` runs.

    Example:
        >>> round(fisher(0, 3, 3, 3), 12)
        0.05
    """
    from scipy.stats import fisher_exact  # not earlier: it takes a while to import

    return float(fisher_exact([[second, of_second - second], [first, of_first - first]], alternative="greater").pvalue)  # pyright: ignore[reportAttributeAccessIssue]


def _verdict(solved: dict[int, int], p_value: float) -> ClaimVerdict:
    if solved[1]:
        return "cut"
    return "kept" if p_value < CHANCE else "inconclusive"


def _share(solved: int, runs: int) -> Number:
    """The share of runs that solve the task, with Wilson's score interval."""
    from scipy.stats import binomtest

    interval = binomtest(solved, runs).proportion_ci(confidence_level=0.95, method="wilson")
    means = f"both answers correct in over {SOLVED:.0%} of texts; {solved} of {runs} runs"
    return Number(solved / runs, means, float(interval.low), float(interval.high), "share of trainings")


def _best(models: Trained) -> dict[str, Any]:
    return min(models, key=lambda model: model["loss"])


def _looks(words: str, model: dict[str, Any]) -> dict[str, Number]:
    """The attention of a trained model's heads to both targets; the head with more weight on the previous token comes first."""
    pairs = sorted(model["weights"], key=lambda pair: -pair[0])
    names = [words] if len(pairs) == 1 else [f"{words}, {place}" for place in ("first", "second")]
    return {
        f"{name}, weight on {target}": Number(weight, "mean over texts, in the run with the lowest loss", unit="share")
        for name, pair in zip(names, pairs, strict=True)
        for target, weight in zip(TARGETS, pair, strict=True)
    }


def _summary(by: dict[int, list[dict]], solved: dict[int, int]) -> str:
    one, two = (_best(by[heads]) for heads in WORDS)
    first, second = sorted(two["weights"], key=lambda pair: -pair[0])
    looks = f"its weight is {one['weights'][0][0]:.2f} on the previous token and {one['weights'][0][1]:.2f} on the match"
    return (
        f"On a task that needs the previous token and an earlier match at once, one head solves it in {solved[1]} of {len(by[1])} training runs, two heads of "
        f"the same total width in {solved[2]} of {len(by[2])}. The best single head has both answers correct in {one['both']:.0%} of texts: {looks}. Of the "
        f"two heads, one attends to the previous token ({first[0]:.2f}) and the other to the match ({second[1]:.2f})."
    )


def _plot(by: dict[int, list[dict]]) -> Plot:
    steps = len(by[1][0]["curve"])
    across = [(place + 0.5) / steps for place in range(steps)]
    series = [Series(f"{words}, best of {len(by[heads])}", across, _best(by[heads])["curve"]) for heads, words in WORDS.items()]
    return Plot("line", "share of the training", "loss on both answers, nats", series)


ENTRY = Claim(
    sentence="One head cannot learn all of these at once.",
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2: with a single head, averaging inhibits attending to different places",
    address="https://arxiv.org/abs/1706.03762",
    published="Stated without a direct test; the only number is the perplexity with one head, 5.29, against 4.92 with eight.",
    definition="At the last token the model must give two answers: the letter of the previous token, and the letter of the one earlier token with the same "
    "symbol. One attention layer followed by a two-layer MLP is trained with one head and with two, at the same width and number of parameters, with eight "
    "seeds each.",
    refuted_by="A training run with one head that gets both answers right in over 95 % of texts.",
    rule="Cut: one head solves the task in any run. Kept: it does in none, and two heads do in significantly more (Fisher's exact test, 5 %). Inconclusive "
    "otherwise.",
    run=run,
    about_model=False,
)
