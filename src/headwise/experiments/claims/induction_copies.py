"""Claim: induction heads copy. Measures their direct effect on the repeated token's logit, and the loss on repetitions with them ablated."""

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

CHOSEN_ON, TRIED_ON = 24, 16  # random texts for choosing the heads and for measuring their effects
BAR = 0.01  # share of the loss on the repetition
NONE = "none"


def run(study: "Study") -> Card:
    """Find induction heads by their attention; on new texts, measure their direct effect and the loss with them ablated."""
    try:
        scores = roles(
            study.model,
            "induction",
            part=study.part,
            limit=CHOSEN_ON,
            seed=study.seed,
            progress=lambda role, done, total: study.progress("searching for induction heads", done, total),
        )
    except ArgumentError as error:  # too few different tokens, or no room to repeat them
        return Card("inconclusive", f"Repeated random text could not be run: {error}")
    places = [(int(layer), int(head)) for layer, head in zip(*(scores.role != NONE).values.nonzero(), strict=True)]
    chosen = sorted(places, key=lambda place: -float(scores.score[0, place[0], place[1]]))
    numbers = _attention(scores, len(chosen)) | _control()
    attention, of_control = _summary_of_attention(numbers, len(chosen)), _summary_of_control(numbers)
    fields: dict[str, Any] = {"numbers": numbers, "plot": _plot(scores, None), "texts": int(scores.texts[0])}
    if not chosen:
        return Card("inconclusive", f"{attention} There is no induction head to test. {of_control}", **fields)
    if study.loss != "next" or is_encoder_decoder(study.model.hf):
        no_next = "This part of the model predicts no next token, so whether they copy it cannot be measured."
        return Card("inconclusive", f"{attention} {no_next} {of_control}", **fields)
    effects = copying_effects(study, chosen, TRIED_ON)
    numbers |= _copies(effects, chosen, study.seed)
    verdict, correction = _verdict(numbers, float(effects.second[:, 0].mean()))
    summary = f"{attention} {_summary(numbers, effects, len(chosen))} {of_control}"
    return Card(verdict, summary, numbers, _plot(scores, effects), correction, len(effects.counts), int(effects.counts.sum()), "next")


def _summary_of_attention(numbers: dict[str, Number], heads: int) -> str:
    best = percent(numbers["best"].value)
    if heads:
        return f"{heads} heads certainly attend to the token after the previous occurrence; the best, chosen on other texts, puts {best} of its weight there."
    return (
        f"No head certainly attends to the token after the previous occurrence more than a fixed offset would explain; the best, chosen on other texts, puts "
        f"{best} of its weight there."
    )


def _attention(scores: "xarray.Dataset", heads: int) -> dict[str, Number]:
    of_task = {name: float(scores[name].values[0]) for name in ("held", "held_low", "held_high", "baseline", "baseline_low", "baseline_high")}
    return {
        "heads": Number(
            float(heads), "heads whose weight there certainly exceeds the best baseline by 0.05, corrected for all heads (Bonferroni)", unit="heads"
        ),
        "best": Number(
            of_task["held"],
            "weight of the best head on the token after the previous occurrence, on texts not used to choose it",
            of_task["held_low"],
            of_task["held_high"],
            "share",
        ),
        "simpler": Number(
            of_task["baseline"], f"score of the best baseline: {scores.rule.values[0]}", of_task["baseline_low"], of_task["baseline_high"], "share"
        ),
    }


def _copies(effects: CopyingEffects, chosen: list[tuple[int, int]], seed: int) -> dict[str, Number]:
    fields = {"counts": effects.counts, "seed": seed}
    own, without, others = effects.second.unbind(1)
    first = effects.first
    numbers = {
        "loss, repeated": mean_over_texts(own, **fields, means="loss of the unchanged model on the repetition", unit="nats"),
        "loss, first time": mean_over_texts(first[:, 0], **fields, means="loss on the same tokens at their first occurrence", unit="nats"),
        "without them": mean_over_texts(without - own, **fields, means="increase in the loss on the repetition with these heads ablated", unit="nats"),
        "without others": mean_over_texts(
            others - own, **fields, means="increase with as many other heads of the same layers ablated, mean of 5 draws", unit="nats"
        ),
        "difference": mean_over_texts(without - others, **fields, means="increase without these heads minus that without others", unit="nats"),
        "without them, first time": mean_over_texts(
            first[:, 1] - first[:, 0], **fields, means="increase in the loss on the first occurrence with these heads ablated", unit="nats"
        ),
    }
    if effects.direct is not None:
        mine = effects.direct[:, [layer for layer, _ in chosen], [head for _, head in chosen]]
        numbers["direct"] = mean_over_texts(
            mine.mean(1),
            **fields,
            means="direct effect of each of these heads on the centred logit of the repeated token, mean over heads",
            unit="logits",
        )
        numbers["direct, all"] = mean_over_texts(effects.direct.nanmean((1, 2)), **fields, means="the same, mean over all heads of the model", unit="logits")
    return numbers


def _verdict(numbers: dict[str, Number], loss: float) -> tuple[Any, str]:
    """Apply the claim's rule."""
    missed = side_of(numbers["difference"], BAR * loss)
    writes = side_of(numbers["direct"], 0.0) if "direct" in numbers else None
    if missed == "above" and writes in ("above", None):
        return "kept", ""
    if missed == "below" and writes in ("below", None):
        return "cut", ""
    if missed == "above" and writes == "below":
        return "corrected", "They are needed for the repetition, but raise the token's logit only indirectly, through other layers."
    if missed == "below" and writes == "above":
        return "corrected", "They raise the token's logit directly, but the model does as well without them."
    return "inconclusive", ""


def _summary(numbers: dict[str, Number], effects: CopyingEffects, heads: int) -> str:
    without, others, own, first = (numbers[name].value for name in ("without them", "without others", "loss, repeated", "without them, first time"))
    direct = (
        f"Each adds {numbers['direct'].value:.2f} directly to the logit of the repeated token, the mean head {numbers['direct, all'].value:.2f}."
        if "direct" in numbers
        else f"Their direct effect on logits could not be measured: {effects.why}"
    )
    return (
        f"{direct} With these {heads} ablated the loss on the repetition rises from {nats(own)} to {nats(own + without)} nats, with as many others of the same "
        f"layers ablated to {nats(own + others)}; on the first occurrence it changes by {nats(first)}."
    )


def _control() -> dict[str, Number]:
    """The negative control: models trained on repeats of one length only; empty if they have not been trained."""
    return {f"control: {name}": number for name, number in control().items()} if results.path_of("repeats").exists() else {}


def _summary_of_control(numbers: dict[str, Number]) -> str:
    if "control: fixed, same length" not in numbers:
        return "The control, models trained on repeats of one length, is not available: they have not been trained."
    fixed, other, drawn = (numbers[f"control: {name}"] for name in ("fixed, same length", "fixed, other lengths", "random, other lengths"))
    return (
        f"Control: a small model trained on repeats of one length has a loss of {nats(fixed.value)} nats on them and of {nats(other.value)} on other lengths, "
        f"where a model trained on random lengths has {nats(drawn.value)}: attending to a fixed offset is not induction."
    )


def _plot(scores: "xarray.Dataset", effects: CopyingEffects | None) -> Plot:
    """Heads by their weight on the token after the previous occurrence, and by their direct effect if it is known."""
    score = scores.score.values[0]
    heads = [(layer, head) for layer in range(score.shape[0]) for head in range(score.shape[1]) if score[layer, head] == score[layer, head]]
    heads = sorted(heads, key=lambda place: -score[place])[:300]
    weights = [float(score[place]) for place in heads]
    if effects is None or effects.direct is None:
        return Plot("points", "layer", "weight on the induction target", (Series("a head", [float(layer) for layer, _ in heads], weights),))
    written = effects.direct.mean(0)
    return Plot(
        "points",
        "weight on the induction target",
        "direct effect on its logit",
        (Series("a head", weights, [float(written[place]) for place in heads]),),
        reference=0.0,
    )


ENTRY = Claim(
    sentence="Induction heads copy.",
    source="Olsson et al. 2022, In-context Learning and Induction Heads",
    address="https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html",
    published=(
        "Defined by prefix matching and copying on repeated random tokens. In small models in-context learning drops sharply when they are knocked out; no "
        "single number."
    ),
    definition=(
        "Induction heads: on random tokens, part of which repeats at a random distance for each text, they certainly put more weight on the token after the "
        "previous occurrence of the current token than any fixed offset would. They copy if their direct effect on that token's logit (centred over the "
        "vocabulary) is positive, and if ablating them raises the loss on the repetition more than ablating as many other heads of the same layers, on texts "
        "not used to choose them."
    ),
    refuted_by="Heads that attend there, do not raise the token's logit, and whose ablation costs no more than that of others.",
    rule=(
        "Kept: both are certain, the latter by 1 % of the loss on the repetition. Cut: both certainly fail. Corrected: one certainly holds and the other "
        "certainly fails. Inconclusive otherwise, also if there is no such head or this part of the model predicts no next token. Intervals: 95 %, bootstrap "
        "over texts."
    ),
    run=run,
)
