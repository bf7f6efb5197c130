"""Induction heads look at what followed the last time: do they copy it, and is it missed without them?"""

from typing import TYPE_CHECKING, Any

from headwise.analysis.roles.find_roles import roles
from headwise.errors import ArgumentError
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import mean_over_texts, side_of
from headwise.experiments.measurements.copying import CopyingEffects, copying_effects
from headwise.experiments.number_text import nats, percent
from headwise.experiments.trained import stored_results as results
from headwise.experiments.trained.fixed_length_control import control
from headwise.models.model_info import is_encoder_decoder

if TYPE_CHECKING:
    import xarray

    from headwise.experiments.study import Study

CHOSEN_ON, TRIED_ON = 24, 16  # random texts
BAR = 0.01  # of the loss on the repetition
NONE = "none"


def run(study: "Study") -> Card:
    """Find the heads by where they look; try on new texts what they write, and what is lost without them."""
    try:
        cast = roles(
            study.model,
            "induction",
            part=study.part,
            limit=CHOSEN_ON,
            seed=study.seed,
            progress=lambda role, done, total: study.progress("looking for induction", done, total),
        )
    except ArgumentError as error:  # too few different tokens, or no room to repeat them
        return Card("inconclusive", f"Random text that repeats could not be read: {error}")
    places = [(int(layer), int(head)) for layer, head in zip(*(cast.role != NONE).values.nonzero(), strict=True)]
    chosen = sorted(places, key=lambda place: -float(cast.score[0, place[0], place[1]]))
    numbers = _looks(cast, len(chosen)) | _control()
    looks, of_control = _summary_of_looks(numbers, len(chosen)), _summary_of_control(numbers)
    told: dict[str, Any] = {"numbers": numbers, "plot": _plot(cast, None), "texts": int(cast.texts[0])}
    if not chosen:
        return Card("inconclusive", f"{looks} There is no induction head to try. {of_control}", **told)
    if study.loss != "next" or is_encoder_decoder(study.model.hf):
        blind = "This part of the model foretells no next token, so that nothing says whether they copy it."
        return Card("inconclusive", f"{looks} {blind} {of_control}", **told)
    tried = copying_effects(study, chosen, TRIED_ON)
    numbers |= _copies(tried, chosen, study.seed)
    verdict, correction = _verdict(numbers, float(tried.second[:, 0].mean()))
    says = f"{looks} {_summary(numbers, tried, len(chosen))} {of_control}"
    return Card(verdict, says, numbers, _plot(cast, tried), correction, len(tried.counts), int(tried.counts.sum()), "next")


def _summary_of_looks(numbers: dict[str, Number], heads: int) -> str:
    best = percent(numbers["best"].value)
    if heads:
        return f"{heads} heads certainly look at what followed an earlier copy; the best, chosen on other texts, puts {best} of its weight there."
    return (
        f"No head certainly looks at what followed an earlier copy more than a fixed distance would explain: the best, chosen on other texts, puts {best} of "
        "its weight there."
    )


def _looks(cast: "xarray.Dataset", heads: int) -> dict[str, Number]:
    of_task = {name: float(cast[name].values[0]) for name in ("held", "held_low", "held_high", "baseline", "baseline_low", "baseline_high")}
    return {
        "heads": Number(float(heads), "certainly look there more than the best simpler rule by 0.05, all heads at once (Bonferroni)", unit="heads"),
        "best": Number(
            of_task["held"], "weight of the best head on what followed, on texts it was not chosen on", of_task["held_low"], of_task["held_high"], "share"
        ),
        "simpler": Number(of_task["baseline"], f"what {cast.rule.values[0]} scores there", of_task["baseline_low"], of_task["baseline_high"], "share"),
    }


def _copies(tried: CopyingEffects, chosen: list[tuple[int, int]], seed: int) -> dict[str, Number]:
    told = {"counts": tried.counts, "seed": seed}
    own, without, others = tried.second.unbind(1)
    first = tried.first
    numbers = {
        "loss, repeated": mean_over_texts(own, **told, means="of the unchanged model on the repetition", unit="nats"),
        "loss, first time": mean_over_texts(first[:, 0], **told, means="on the same tokens when they are there for the first time", unit="nats"),
        "without them": mean_over_texts(without - own, **told, means="by how much the loss on the repetition rises without these heads", unit="nats"),
        "without others": mean_over_texts(others - own, **told, means="without as many others of the same layers, mean of 5 draws", unit="nats"),
        "difference": mean_over_texts(without - others, **told, means="the former less the latter", unit="nats"),
        "without them, first time": mean_over_texts(
            first[:, 1] - first[:, 0], **told, means="by how much the loss on the first copy rises without these heads", unit="nats"
        ),
    }
    if tried.direct is not None:
        mine = tried.direct[:, [layer for layer, _ in chosen], [head for _, head in chosen]]
        numbers["direct"] = mean_over_texts(
            mine.mean(1),
            **told,
            means="what each of them adds, with nothing in between, to the centred logit of the token that is to be repeated",
            unit="logits",
        )
        numbers["direct, all"] = mean_over_texts(tried.direct.nanmean((1, 2)), **told, means="the same, mean over all heads of the model", unit="logits")
    return numbers


def _verdict(numbers: dict[str, Number], loss: float) -> tuple[Any, str]:
    """See the rule."""
    missed = side_of(numbers["difference"], BAR * loss)
    writes = side_of(numbers["direct"], 0.0) if "direct" in numbers else None
    if missed == "above" and writes in ("above", None):
        return "kept", ""
    if missed == "below" and writes in ("below", None):
        return "cut", ""
    if missed == "above" and writes == "below":
        return "corrected", "They are needed to repeat, and write the token by way of others."
    if missed == "below" and writes == "above":
        return "corrected", "They write the token, and others do as well without them."
    return "inconclusive", ""


def _summary(numbers: dict[str, Number], tried: CopyingEffects, heads: int) -> str:
    without, others, own, first = (numbers[name].value for name in ("without them", "without others", "loss, repeated", "without them, first time"))
    direct = (
        f"Each adds {numbers['direct'].value:.2f} to the logit of the token to be repeated, the mean head {numbers['direct, all'].value:.2f}."
        if "direct" in numbers
        else f"What they add to logits could not be read: {tried.why}"
    )
    return (
        f"{direct} Without these {heads} the loss on the repetition rises from {nats(own)} to {nats(own + without)} nats, without as many others of the same "
        f"layers to {nats(own + others)}; on what comes for the first time it changes by {nats(first)}."
    )


def _control() -> dict[str, Number]:
    """The negative control: models that only ever saw repeats of one length; nothing where they have not been trained."""
    return {f"control: {name}": number for name, number in control().items()} if results.path_of("repeats").exists() else {}


def _summary_of_control(numbers: dict[str, Number]) -> str:
    if "control: fixed, same length" not in numbers:
        return "Of the control, models trained on repeats of one length, nothing can be told: they have not been trained."
    fixed, other, drawn = (numbers[f"control: {name}"] for name in ("fixed, same length", "fixed, other lengths", "random, other lengths"))
    return (
        f"Control: a small model trained on repeats of one length has a loss of {nats(fixed.value)} nats on them and of {nats(other.value)} on other lengths, "
        f"where one trained on lengths drawn anew has {nats(drawn.value)}: looking back a fixed distance is no induction."
    )


def _plot(cast: "xarray.Dataset", tried: CopyingEffects | None) -> Plot:
    """Heads by where they look, and by what they write where that is known."""
    score = cast.score.values[0]
    heads = [(layer, head) for layer in range(score.shape[0]) for head in range(score.shape[1]) if score[layer, head] == score[layer, head]]
    heads = sorted(heads, key=lambda place: -score[place])[:300]
    looks = [float(score[place]) for place in heads]
    if tried is None or tried.direct is None:
        return Plot("points", "layer", "weight on what followed", (Series("a head", [float(layer) for layer, _ in heads], looks),))
    written = tried.direct.mean(0)
    return Plot(
        "points", "weight on what followed", "added to its logit", (Series("a head", looks, [float(written[place]) for place in heads]),), reference=0.0
    )


ENTRY = Claim(
    sentence="Induction heads copy.",
    source="Olsson et al. 2022, In-context Learning and Induction Heads",
    address="https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html",
    published=(
        "Defined by prefix matching and copying on random tokens that repeat. In small models in-context learning decreases greatly when they are knocked "
        "out; no single number."
    ),
    definition=(
        "Induction heads: on random tokens, a part of which repeats at a distance drawn anew for each text, they put more weight on the token behind the "
        "earlier self than any fixed distance would, certainly. They copy when they add to the logit of that token (centred over the vocabulary, with "
        "nothing in between), and when the loss on the repetition rises without them more than without as many other heads of the same layers, on texts that "
        "they were not chosen on."
    ),
    refuted_by="Heads that look there, write nothing towards the token, and are missed no more than others.",
    rule=(
        "Kept: both are certain, the latter by 1 % of the loss on the repetition. Cut: neither, certainly. Corrected: one is certain and the other certainly "
        "not. Can't tell: no such head, or a part of a model that foretells no next token. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
