"""Claim: the first token is an attention sink. Measures the weight on it, what heads write from it, and the loss with it masked."""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.intervals import bootstrap
from headwise.analysis.roles.role_verdict import sure
from headwise.analysis.roles.tokenized_text import special_tokens
from headwise.axes import Bool, Float, Tensor
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import Side, mean_over_texts, side_of
from headwise.experiments.measurements.first_token_mass import FirstTokenMass, first_token_mass
from headwise.experiments.measurements.negligible import NEGLIGIBLE, OWN_LOSSES, loss_scale
from headwise.experiments.measurements.windowed_model import losses_in_windows, windowed
from headwise.experiments.number_text import nats, percent
from headwise.interventions.edit import hook_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.inputs.token_text import token_texts

if TYPE_CHECKING:
    from headwise.experiments.study import Study

FEWEST = 6  # texts
WINDOW, KEPT = 16, 4  # tokens; Xiao et al. keep 4 of 1024
TRIED = 12  # texts evaluated with a window, and with another first token
HALF, MANY = 0.5, 0.05  # share of a head's weight that makes it a sink head; share of sink heads needed


@dataclass(frozen=True, eq=False)
class WindowLosses:
    """The loss on each text: unchanged, with a window, and with a window of the same size that includes the first tokens.

    Attributes:
        losses: empty if windows could not be applied.
        why: the reason if they could not.
    """

    losses: Float[Tensor, "n three"]
    counts: Float[Tensor, " n"]
    why: str = ""


def run(study: "Study") -> Card:
    """Measure the weight on the first token, the share of writes that comes from it, and the loss with it masked."""
    few = study.too_few_texts(FEWEST, "the weight on the first token")
    if few is not None:
        return few
    found = []
    for number in range(len(study.texts)):
        found.append(first_token_mass(study.passage(number)))
        study.progress("weight on the first token", number + 1, len(study.texts))
    weight = torch.stack([text.weight for text in found])
    sinks = _sink_heads(weight, study)
    windows = _windows(study)
    numbers = _numbers(study, found, sinks, windows)
    draws_less, needed = _draws_less(numbers), _needed(study, numbers)
    verdict, correction = _verdict(float(sinks.double().sum() / (~weight[0].isnan()).sum()), draws_less, needed)
    summary = _summary(study, numbers, windows, int(sinks.sum()))
    return Card(verdict, summary, numbers, _plot(found), correction, len(study.texts), study.token_count, study.loss)


def _sink_heads(weight: Float[Tensor, "n L H"], study: "Study") -> Bool[Tensor, "L H"]:
    """Heads that certainly put over half of their weight on the first token, corrected for all heads (Bonferroni)."""
    counts = torch.ones(len(weight), dtype=torch.float64)
    return sure(bootstrap(weight - HALF, counts, study.seed), int((~weight[0].isnan()).sum()), 0.0)


def _windows(study: "Study") -> WindowLosses:
    """Xiao et al.'s experiment, on texts of at least two windows."""
    head_map = HeadMap(study.model, study.texts[0])
    places = study.passage(0).places
    why = next((reason for place in places if (reason := hook_refusal(head_map, head_map.place(place.layer, None, study.part))) is not None), None)
    long = [number for number in range(len(study.texts)) if study.passage(number).forward.cache.wo_inputs[places[0].index].shape[1] >= 2 * WINDOW]
    if why is None and len(long) < FEWEST:
        why = f"{FEWEST} texts of at least {2 * WINDOW} tokens are needed, got {len(long)}"
    if why is not None:
        return WindowLosses(torch.zeros(0, 3), torch.zeros(0), why)
    modules = [place.module for place in places]
    models = [windowed(study.model.hf, modules, WINDOW, 0), windowed(study.model.hf, modules, WINDOW - KEPT, KEPT)]
    some = long[:TRIED]
    losses = []
    for done, number in enumerate(some, start=1):
        losses.append(losses_in_windows(study.passage(number), models, WINDOW))
        study.progress("windows", done, len(some))
    return WindowLosses(torch.tensor(losses, dtype=torch.float64), study.counts[some])


def _swapped(study: "Study") -> Float[Tensor, "n L H"] | None:
    """Weight on the first token after replacing it at random; None if the tokenizer puts a special token first, or the input has no token ids."""
    special = special_tokens(study.model)
    if special.before:
        return None
    random, found = Random(study.seed), []
    for number in range(min(TRIED, len(study.texts))):
        given = dict(study.passage(number).forward.session.inputs)
        if not isinstance(given.get("input_ids"), Tensor):
            return None
        ids = given["input_ids"].clone()
        ids[:, 0] = random.choice(special.plain)
        found.append(first_token_mass(study.passage(number), {**given, "input_ids": ids}).weight)
    return torch.stack(found)


def _numbers(study: "Study", found: list[FirstTokenMass], sinks: Bool[Tensor, "L H"], windows: WindowLosses) -> dict[str, Number]:
    seed = study.seed
    weight, written, equal = (torch.stack([getattr(text, name) for text in found]) for name in ("weight", "written", "equal"))
    heads = (~weight[0].isnan()).sum()
    numbers = {
        "weight": mean_over_texts(weight.nanmean((1, 2)), seed=seed, means="weight on the first token, mean over heads and later queries", unit="share"),
        "equal": mean_over_texts(equal.nanmean((1, 2)), seed=seed, means="the same under uniform attention over visible keys", unit="share"),
        "resting": Number(float(sinks.sum()), f"heads that certainly put over half of their weight there, of {int(heads)}", unit="heads"),
        "most": Number(
            float(weight.mean(0).nan_to_num(-1).max()), "weight of the head that puts most there; a maximum over heads, so biased upwards", unit="share"
        ),
    }
    if bool(sinks.any()) and not bool(written[:, sinks].isnan().any()):
        mine, drawn = weight[:, sinks].mean(1), written[:, sinks].mean(1)
        numbers["their weight"] = mean_over_texts(mine, seed=seed, means="weight that these heads put on the first token", unit="share")
        numbers["their write"] = mean_over_texts(
            drawn, seed=seed, means="share of the summed norms of weighted values Σ |w · v · W_O| of these heads that comes from the first token", unit="share"
        )
        numbers["drawn less"] = mean_over_texts(mine - drawn, seed=seed, means="their weight minus the share of their write", unit="share")
    swapped = _swapped(study) if bool(sinks.any()) else None
    if swapped is not None:
        numbers["another word"] = mean_over_texts(
            swapped[:, sinks].mean(1), seed=seed, means="weight that these heads put on the first token after it is replaced at random", unit="share"
        )
    return numbers | _of_windows(windows, seed)


def _of_windows(windows: WindowLosses, seed: int) -> dict[str, Number]:
    if windows.why:
        return {}
    own, without, with_first = windows.losses.unbind(1)
    weighting = {"counts": windows.counts, "seed": seed}
    return {
        "loss": mean_over_texts(own, **weighting, means="of the unchanged model; a per-token loss counts the tokens after the first window"),
        "loss, window": mean_over_texts(
            without, **weighting, means=f"each token sees only the last {WINDOW}", published="perplexity 5158 in a window of 1024, Llama-2-13B"
        ),
        "loss, window with the first": mean_over_texts(
            with_first,
            **weighting,
            means=f"each token sees the last {WINDOW - KEPT} and the first {KEPT}",
            published="perplexity 5.40 with the first 4 and the last 1020",
        ),
        "cost": mean_over_texts(without - with_first, **weighting, means="loss with the window without the first tokens minus that with them"),
    }


def _draws_less(numbers: dict[str, Number]) -> Side:
    return side_of(numbers["drawn less"], 0.0) if "drawn less" in numbers else "unsure"


def _needed(study: "Study", numbers: dict[str, Number]) -> Side:
    return side_of(numbers["cost"], NEGLIGIBLE * loss_scale(study)) if "cost" in numbers else "unsure"


def _verdict(sink_heads: float, draws_less: Side, needed: Side) -> tuple[Any, str]:
    """Apply the claim's rule."""
    if sink_heads < MANY:
        return "cut", ""
    if draws_less == needed == "above":
        return "kept", ""
    if draws_less == "below":
        return "corrected", "Heads attend to it, and an even larger share of what they write comes from it."
    if needed == "below":
        return "corrected", "Heads attend to it, but the model does not need it."
    return "inconclusive", ""


def _summary(study: "Study", numbers: dict[str, Number], windows: WindowLosses, sink_heads: int) -> str:
    weight, equal = numbers["weight"], numbers["equal"]
    heads = int(sum(place.heads for place in study.passage(0).places))
    sentences = [
        f"{sink_heads} of {heads} heads certainly put over half of their weight on the first token{_always(study)};",
        f"the mean head puts {percent(weight.value)} there, against {percent(equal.value)} under uniform attention.",
    ]
    if "their write" in numbers:
        sentences.append(
            f"Those heads put {percent(numbers['their weight'].value)} there, and {percent(numbers['their write'].value)} of what they write comes from it."
        )
    if "another word" in numbers:
        sentences.append(f"With a random token in its place they put {percent(numbers['another word'].value)} there.")
    if windows.why:
        return " ".join([*sentences, f"Windows could not be applied: {windows.why}."])
    own, without, with_first = (numbers[name].value for name in ("loss", "loss, window", "loss, window with the first"))
    measured = "The loss" if study.loss in OWN_LOSSES else "The distance from the model's own output"
    start = f"{nats(own)} without a window, " if study.loss in OWN_LOSSES else ""
    sentences.append(
        f"{measured} is {start}{nats(without)} with a window of {WINDOW} tokens, and {nats(with_first)} with a window of {WINDOW - KEPT} plus the first {KEPT}."
    )
    return " ".join(sentences)


def _always(study: "Study") -> str:
    """The first token in parentheses if the tokenizer puts the same one before each text."""
    before = special_tokens(study.model).before
    return f" (always {token_texts(study.model.tokenizer, before[:1])[0]} here)" if before else ""


def _plot(found: list[FirstTokenMass]) -> Plot:
    weight, written = (torch.stack([getattr(text, name) for text in found]).mean(0).nanmean(1) for name in ("weight", "written"))
    layers = [float(layer) for layer in range(len(weight))]
    series = [Series("weight", layers, weight.tolist())]
    if not bool(written.isnan().any()):
        series.append(Series("write", layers, written.tolist()))
    return Plot("line", "layer", "share from the first token, mean over heads", tuple(series))


ENTRY = Claim(
    sentence="The first token is a sink.",
    source="Xiao et al. 2023, StreamingLLM; Kobayashi et al. 2020 on norms of weighted values",
    address="https://arxiv.org/abs/2309.17453",
    published=(
        "Llama-2-13B on a book: perplexity 5158.07 in a window of 1024 tokens, 5.40 with the first 4 and the last 1020, 5.60 when those 4 are line breaks "
        "(table 1)."
    ),
    definition=(
        "A sink head puts over half of its weight on the first token, mean over later queries. The first token is a sink if such heads draw a smaller share of "
        "what they write from it than the weight they put on it, by norm |w · v · W_O|, and if a window that excludes it costs more than a window of the same "
        "size that keeps it. Windows are applied as masks: positions are unchanged, and no cache is rolled."
    ),
    refuted_by="Almost no sink heads, or a window that does as well without the first tokens.",
    rule=(
        f"Cut: fewer than {percent(MANY)} of the heads are certainly sink heads (95 % for all heads together, Bonferroni). Kept: more are, the share of their "
        f"write is certainly below their weight, and excluding the first {KEPT} tokens from a window of {WINDOW} certainly costs over 1 % of the loss (0.01 "
        "for models measured by distance from their own output). Corrected: the share is certainly larger, or the cost certainly smaller. Intervals: 95 %, "
        "bootstrap over texts."
    ),
    run=run,
)
