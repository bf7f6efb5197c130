"""One head cannot learn all of these at once."""

from typing import TYPE_CHECKING

from headwise.claims.card import Card, Number, Plot, Series, Verdict
from headwise.claims.claim import Claim
from headwise.claims.judging import side
from headwise.claims.over_seeds import over_seeds
from headwise.claims.saying import percent
from headwise.claims.trained import results

if TYPE_CHECKING:
    from headwise.claims.study import Study

SOLVED, FAILED = 0.95, 0.80  # share of texts with both answers right
TARGETS = ("the token before", "the match")
ANSWERS = {
    "both": ("both right", "both answers right"),
    "before": ("token before", "the letter of the token before"),
    "matched": ("match", "the letter of the match"),
}


def work(study: "Study") -> Card:
    """Read what came out of training; the model at hand plays no part."""
    return judge(results.read("two_patterns"))


def judge(found: dict) -> Card:
    """From what one head and two can do to a verdict."""
    by = {heads: [model for model in found["models"] if model["heads"] == heads] for heads in (1, 2)}
    numbers = {
        f"{words}, {name}": over_seeds([model[key] for model in by[heads]], means, "share of texts")
        for heads, words in ((1, "one head"), (2, "two heads"))
        for key, (name, means) in ANSWERS.items()
    }
    numbers |= _weights(by)
    verdict = _verdict(numbers["one head, both right"], numbers["two heads, both right"])
    return Card(verdict, _says(numbers, by), numbers, _plot(by))


def _verdict(one: Number, two: Number) -> Verdict:
    if side(two, SOLVED) != "above":
        return "can't tell"  # then the task is too hard for either
    if side(one, FAILED) == "below":
        return "kept"
    return "cut" if side(one, SOLVED) == "above" else "can't tell"


def _weights(by: dict[int, list[dict]]) -> dict[str, Number]:
    """Where heads look: of two, the one that looks more at the token before comes first."""
    ordered = {heads: [sorted(model["weights"], key=lambda pair: -pair[0]) for model in models] for heads, models in by.items()}
    found = {}
    for heads, place, words in ((1, 0, "the one head"), (2, 0, "the first of two"), (2, 1, "the second of two")):
        for target, name in enumerate(TARGETS):
            found[f"weight of {words} on {name}"] = over_seeds([pairs[place][target] for pairs in ordered[heads]], "mean over texts", "share")
    return found


def _says(numbers: dict[str, Number], by: dict[int, list[dict]]) -> str:
    one, two = numbers["one head, both right"], numbers["two heads, both right"]
    mixed = [numbers[f"weight of the one head on {target}"].value for target in TARGETS]
    split = [numbers[f"weight of the {place} of two on {target}"].value for place, target in zip(("first", "second"), TARGETS, strict=True)]
    one_looks = f"The one head puts {mixed[0]:.2f} of its weight on the token before and {mixed[1]:.2f} on the match"
    return (
        f"Asked for the token before and for an earlier match at once, one head gives both in {percent(one.value)} of texts, two heads of the same width "
        f"together in {percent(two.value)} ({len(by[1])} trainings each). {one_looks}; of two, one puts {split[0]:.2f} on the token before and the other "
        f"{split[1]:.2f} on the match."
    )


def _plot(by: dict[int, list[dict]]) -> Plot:
    steps = len(by[1][0]["curve"])
    series = []
    for heads, name in ((1, "one head"), (2, "two heads")):
        numbers = [over_seeds([model["curve"][place] for model in by[heads]]) for place in range(steps)]
        series.append(Series(name, [(place + 0.5) / steps for place in range(steps)], [number.value for number in numbers]))
    return Plot("line", "share of the training", "nats of both answers", series)


ENTRY = Claim(
    sentence="One head cannot learn all of these at once.",
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2: with a single head, averaging inhibits attending to different places",
    address="https://arxiv.org/abs/1706.03762",
    published="Said, and not measured there but for the perplexity of one head: 5.29 against 4.92 with eight.",
    definition="At the last token two answers are asked for: the letter of the token before, and the letter of the one earlier token with the same symbol. "
    "One layer of attention and two of a network are trained with one head and with two, at the same width and number of parameters, three seeds each.",
    refuted_by="One head that gives both answers in 95 % of texts.",
    rule="Kept if two heads certainly solve it (both right in over 95 % of texts) and one head certainly does not (under 80 %); cut if one head certainly "
    "solves it; else nothing can be told.",
    work=work,
    about_model=False,
)
