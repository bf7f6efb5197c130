"""Much attention goes to the first token, whatever it is: does it rest there, and what if it cannot?"""

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
TRIED = 12  # texts that are read through a window, and with another first token
HALF, MANY = 0.5, 0.05  # of a head's weight; of the heads


@dataclass(frozen=True, eq=False)
class WindowLosses:
    """The loss on each text: as the model is, in a window, in a window of the same size with the first tokens in it; empty where it could not be tried.

    Attributes:
        why: why not.
    """

    losses: Float[Tensor, "n three"]
    counts: Float[Tensor, " n"]
    why: str = ""


def run(study: "Study") -> Card:
    """Weight on the first token, what is written from it, and the loss without it."""
    few = study.too_few_texts(FEWEST, "how much rests on the first token")
    if few is not None:
        return few
    found = []
    for number in range(len(study.texts)):
        found.append(first_token_mass(study.passage(number)))
        study.progress("weight on the first token", number + 1, len(study.texts))
    weight = torch.stack([text.weight for text in found])
    rests = _rests(weight, study)
    windows = _windows(study)
    numbers = _numbers(study, found, rests, windows)
    draws_less, needed = _draws_less(numbers), _needed(study, numbers)
    verdict, correction = _verdict(float(rests.double().sum() / (~weight[0].isnan()).sum()), draws_less, needed)
    says = _summary(study, numbers, windows, int(rests.sum()))
    return Card(verdict, says, numbers, _plot(found), correction, len(study.texts), study.token_count, study.loss)


def _rests(weight: Float[Tensor, "n L H"], study: "Study") -> Bool[Tensor, "L H"]:
    """The heads that certainly put over half of their weight there, all heads at once (Bonferroni)."""
    counts = torch.ones(len(weight), dtype=torch.float64)
    return sure(bootstrap(weight - HALF, counts, study.seed), int((~weight[0].isnan()).sum()), 0.0)


def _windows(study: "Study") -> WindowLosses:
    """Xiao et al.'s experiment on texts that are longer than two windows."""
    head_map = HeadMap(study.model, study.texts[0])
    places = study.passage(0).places
    why = next((reason for place in places if (reason := hook_refusal(head_map, head_map.place(place.layer, None, study.part))) is not None), None)
    long = [number for number in range(len(study.texts)) if study.passage(number).forward.cache.wo_inputs[places[0].index].shape[1] >= 2 * WINDOW]
    if why is None and len(long) < FEWEST:
        why = f"{len(long)} texts have the {2 * WINDOW} tokens that are needed, of {FEWEST}"
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
    """Weight on the first token when it is another one, drawn at random; None where the first token is no token of the text, or the input has none."""
    around = special_tokens(study.model)
    if around.before:
        return None
    random, found = Random(study.seed), []
    for number in range(min(TRIED, len(study.texts))):
        given = dict(study.passage(number).forward.session.inputs)
        if not isinstance(given.get("input_ids"), Tensor):
            return None
        ids = given["input_ids"].clone()
        ids[:, 0] = random.choice(around.plain)
        found.append(first_token_mass(study.passage(number), {**given, "input_ids": ids}).weight)
    return torch.stack(found)


def _numbers(study: "Study", found: list[FirstTokenMass], rests: Bool[Tensor, "L H"], windows: WindowLosses) -> dict[str, Number]:
    seed = study.seed
    weight, written, equal = (torch.stack([getattr(text, name) for text in found]) for name in ("weight", "written", "equal"))
    heads = (~weight[0].isnan()).sum()
    numbers = {
        "weight": mean_over_texts(weight.nanmean((1, 2)), seed=seed, means="weight on the first token, mean over heads and queries behind it", unit="share"),
        "equal": mean_over_texts(equal.nanmean((1, 2)), seed=seed, means="what it would be if each query gave the same to all keys that it sees", unit="share"),
        "resting": Number(float(rests.sum()), f"certainly put over half of their weight there; of {int(heads)}", unit="heads"),
        "most": Number(float(weight.mean(0).nan_to_num(-1).max()), "weight of the head that puts most there; highest of all, so it flatters", unit="share"),
    }
    if bool(rests.any()) and not bool(written[:, rests].isnan().any()):
        mine, drawn = weight[:, rests].mean(1), written[:, rests].mean(1)
        numbers["their weight"] = mean_over_texts(mine, seed=seed, means="weight on the first token of the heads that rest there", unit="share")
        numbers["their write"] = mean_over_texts(
            drawn, seed=seed, means="of the length of what they carry, the part that comes from the first token", unit="share"
        )
        numbers["drawn less"] = mean_over_texts(mine - drawn, seed=seed, means="the former less the latter", unit="share")
    swapped = _swapped(study) if bool(rests.any()) else None
    if swapped is not None:
        numbers["another word"] = mean_over_texts(
            swapped[:, rests].mean(1), seed=seed, means="weight on the first token of these heads when it is another one, drawn at random", unit="share"
        )
    return numbers | _of_windows(windows, seed)


def _of_windows(windows: WindowLosses, seed: int) -> dict[str, Number]:
    if windows.why:
        return {}
    own, without, with_first = windows.losses.unbind(1)
    told = {"counts": windows.counts, "seed": seed}
    return {
        "loss": mean_over_texts(own, **told, means="of the unchanged model, on the tokens behind the first window where it is about single tokens"),
        "loss, window": mean_over_texts(
            without, **told, means=f"each token sees the last {WINDOW} alone", published="perplexity 5158 in a window of 1024, Llama-2-13B"
        ),
        "loss, window with the first": mean_over_texts(
            with_first,
            **told,
            means=f"each token sees the last {WINDOW - KEPT} and the first {KEPT}",
            published="perplexity 5.40 with the first 4 and the last 1020",
        ),
        "cost": mean_over_texts(without - with_first, **told, means="the window without the first tokens against the one with them"),
    }


def _draws_less(numbers: dict[str, Number]) -> Side:
    return side_of(numbers["drawn less"], 0.0) if "drawn less" in numbers else "unsure"


def _needed(study: "Study", numbers: dict[str, Number]) -> Side:
    return side_of(numbers["cost"], NEGLIGIBLE * loss_scale(study)) if "cost" in numbers else "unsure"


def _verdict(resting_heads: float, draws_less: Side, needed: Side) -> tuple[Any, str]:
    """See the rule."""
    if resting_heads < MANY:
        return "cut", ""
    if draws_less == needed == "above":
        return "kept", ""
    if draws_less == "below":
        return "corrected", "Heads look there, and what they write comes from there even more."
    if needed == "below":
        return "corrected", "Heads rest on it, and the model can do without."
    return "inconclusive", ""


def _summary(study: "Study", numbers: dict[str, Number], windows: WindowLosses, resting_heads: int) -> str:
    weight, equal = numbers["weight"], numbers["equal"]
    heads = int(sum(place.heads for place in study.passage(0).places))
    said = [
        f"{resting_heads} of {heads} heads certainly put over half of their weight on the first token{_always(study)};",
        f"the mean head puts {percent(weight.value)} there, where looking at all alike would be {percent(equal.value)}.",
    ]
    if "their write" in numbers:
        said.append(
            f"Those heads put {percent(numbers['their weight'].value)} there and draw {percent(numbers['their write'].value)} of what they write from it."
        )
    if "another word" in numbers:
        said.append(f"With another word in its place they put {percent(numbers['another word'].value)} there.")
    if windows.why:
        return " ".join([*said, f"Windows could not be tried: {windows.why}."])
    own, without, with_first = (numbers[name].value for name in ("loss", "loss, window", "loss, window with the first"))
    measured = "The loss" if study.loss in OWN_LOSSES else "The distance from the model's own output"
    start = f"{nats(own)} in full view, " if study.loss in OWN_LOSSES else ""
    said.append(
        f"{measured} is {start}{nats(without)} in a window of {WINDOW} tokens, {nats(with_first)} in one of {WINDOW - KEPT} with the first {KEPT} besides."
    )
    return " ".join(said)


def _always(study: "Study") -> str:
    """What the first token is, where the tokenizer puts the same one before each text."""
    before = special_tokens(study.model).before
    return f" (always {token_texts(study.model.tokenizer, before[:1])[0]} here)" if before else ""


def _plot(found: list[FirstTokenMass]) -> Plot:
    weight, written = (torch.stack([getattr(text, name) for text in found]).mean(0).nanmean(1) for name in ("weight", "written"))
    layers = [float(layer) for layer in range(len(weight))]
    series = [Series("weight", layers, weight.tolist())]
    if not bool(written.isnan().any()):
        series.append(Series("write", layers, written.tolist()))
    return Plot("line", "layer", "from the first token, mean over heads", tuple(series))


ENTRY = Claim(
    sentence="The first token is a sink.",
    source="Xiao et al. 2023, StreamingLLM; Kobayashi et al. 2020 on weight and what it carries",
    address="https://arxiv.org/abs/2309.17453",
    published=(
        "Llama-2-13B on a book: perplexity 5158.07 in a window of 1024 tokens, 5.40 with the first 4 and the last 1020, 5.60 when those 4 are line breaks "
        "(table 1)."
    ),
    definition=(
        "A head rests on the first token when it puts over half of its weight there, mean over the queries behind it. It is a sink when such heads draw less "
        "of what they write from it than they put weight on it, by length |w · v · W_O|, and when a window that leaves it out costs more than one of the "
        "same size that keeps it. Windows are masks: positions stay as they are, and no cache is rolled."
    ),
    refuted_by="Hardly a head that rests there, or a window that does as well without the first tokens.",
    rule=(
        f"Cut: fewer than {percent(MANY)} of the heads certainly rest there (95 % for all heads together, Bonferroni). Kept: more do, they draw less than "
        f"they look, and leaving the first {KEPT} tokens out of a window of {WINDOW} certainly costs over 1 % of the loss (0.01 where there is only a "
        "distance from the model's own output). Corrected: they certainly draw more, or it certainly costs less. Intervals: 95 %, bootstrap over texts."
    ),
    run=run,
)
