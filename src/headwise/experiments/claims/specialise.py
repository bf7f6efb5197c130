"""Claim: heads specialise in grammar, coreference, meaning and long-range attention. Compares the best head of each kind with baselines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from headwise.analysis.layer_weights import layer_weights
from headwise.analysis.roles.catalog.long_range import AWAY
from headwise.analysis.roles.find_roles import FEWEST_TEXTS, roles
from headwise.analysis.roles.role_verdict import MARGIN
from headwise.analysis.roles.word_alignment import joined, tokens_of
from headwise.errors import ModelError
from headwise.experiments.card import Card, ClaimVerdict, Number, Plot, Series
from headwise.experiments.claim import Claim
from headwise.experiments.estimates.confidence_interval import bounds, texts_needed
from headwise.experiments.number_text import percent

if TYPE_CHECKING:
    import xarray

    from headwise.experiments.study import Study

KINDS = {"grammar": "grammar", "coreference": "coreference", "same_meaning": "the same meaning", "long_range": "long-range attention"}
LONG = "long_range"
FILES = {"grammar": "a file of parsed sentences (--conllu)", "coreference": "a file of resolved pronouns (--gap or --winobias)"}
SENTENCE = "The cat sat on the mat."
WORDS = {"The": (0, 3), "cat": (4, 7), "sat": (8, 11), "the": (15, 18), "mat": (19, 22)}
PAIRS = (("sat", "cat"), ("sat", "mat"), ("The", "cat"), ("the", "mat"), ("mat", "cat"))  # from, to
Found = Literal["found", "absent", "unsure", "not measured"]


@dataclass(frozen=True)
class TaskResult:
    """The result of one task for the head chosen on one half of the texts, measured on the other half.

    Attributes:
        held: the head's score on the other half.
        rule: the best baseline's score there.
        lead: of the head over the best baseline, with an interval corrected for all tasks of the kind.
        texts: in both halves.
    """

    name: str
    head: tuple[int, int]
    held: float
    rule: float
    lead: Number
    texts: int


@dataclass(frozen=True)
class Specialty:
    """The result for one kind of specialty."""

    name: str
    tasks: tuple[TaskResult, ...]
    heads: int
    margin: float
    why: str = ""

    @property
    def found(self) -> Found:
        if not self.tasks:
            return "not measured"
        if self.leading:
            return "found"
        return "absent" if all(bounds(task.lead)[1] < self.margin for task in self.tasks) else "unsure"

    @property
    def leading(self) -> int:
        """The number of tasks in which a head certainly exceeds the baseline."""
        return sum(bounds(task.lead)[0] > self.margin for task in self.tasks)

    @property
    def best(self) -> TaskResult:
        return max(self.tasks, key=lambda task: bounds(task.lead)[0])


def run(study: "Study") -> Card:
    kinds = [_long_range(study) if name == LONG else _kind(study.roles, name) for name in KINDS]
    verdict = _verdict([kind.found for kind in kinds])
    numbers = {**_numbers(kinds), **_sentence(study)}
    return Card(
        verdict,
        _summary(kinds),
        numbers,
        _plot(kinds),
        _correction(kinds) if verdict == "corrected" else "",
        texts=max((int(x) for x in study.roles["texts"].values), default=0),
        tokens=0,
    )


def _kind(scores: "xarray.Dataset", name: str) -> Specialty:
    tasks = [task for task, role in zip(scores.task.values.tolist(), scores.of_role.values.tolist(), strict=True) if role == name]
    left_out = scores.attrs["left_out"]
    why = next((reason for task, reason in left_out.items() if task == name or task.startswith(f"{name}:")), "")
    return Specialty(name, tuple(_task(scores.sel(task=task), task, len(tasks)) for task in tasks), _leading(scores, tasks), float(scores.attrs["margin"]), why)


def _long_range(study: "Study") -> Specialty:
    """Long-range attention, on the untruncated texts: a token must have others that are far away."""
    least = 2 * AWAY[0]
    long = [text for text in study.full_texts if len(study.model.tokenizer(text)["input_ids"]) > least]
    if len(long) < FEWEST_TEXTS:
        return Specialty(LONG, (), 0, MARGIN, f"{FEWEST_TEXTS} texts of over {least} tokens are needed, got {len(long)}")
    progress = study.progress
    return _kind(
        roles(study.model, [LONG], texts=long, part=study.part, seed=study.seed, progress=lambda what, done, total: progress(f"role {what}", done, total)), LONG
    )


def _leading(scores: "xarray.Dataset", tasks: list[str]) -> int:
    """The number of heads that certainly lead in one of these tasks, corrected for all heads and tasks of all roles."""
    some = scores.sel(task=tasks)
    width = (some["gain_high"].values - some["gain_low"].values) / 2
    certain = some["gain"].values - width * _wider(scores["gain"].size) > scores.attrs["margin"]
    return int(certain.any(0).sum())


def _wider(comparisons: int) -> float:
    """The factor by which a 95 % interval is widened so that this many hold simultaneously (Bonferroni)."""
    from scipy.stats import norm  # not earlier: it takes a while to import

    return float(norm.isf(0.025 / max(comparisons, 1)) / norm.isf(0.025))


def _task(found: "xarray.Dataset", name: str, of: int) -> TaskResult:
    lead, low, high = (float(found[key]) for key in ("held_gain", "held_gain_low", "held_gain_high"))
    wider = _wider(of)
    number = Number(lead, low=lead - wider * (lead - low), high=lead + wider * (high - lead))
    return TaskResult(
        name.partition(": ")[2], (int(found.best_layer), int(found.best_head)), float(found.held), float(found.baseline), number, int(found.texts)
    )


def _verdict(found: Sequence[Found]) -> ClaimVerdict:
    if all(x == "found" for x in found):
        return "kept"
    if "found" in found and "absent" in found:
        return "corrected"
    return "cut" if all(x == "absent" for x in found) else "inconclusive"


def _numbers(kinds: Sequence[Specialty]) -> dict[str, Number]:
    numbers = {}
    for kind in kinds:
        if not kind.tasks:
            continue
        best = kind.best
        layer, head = best.head
        means = f"lead of head {layer}.{head} over the best baseline in “{best.name}”, on other texts; corrected for {len(kind.tasks)} tasks"
        numbers[kind.name] = Number(best.lead.value, means, best.lead.low, best.lead.high, "share", PUBLISHED.get(kind.name))
        numbers[f"{kind.name}_scores"] = Number(best.held, f"its score there; the baseline scores {best.rule:.3g}", unit="share")
        numbers[f"{kind.name}_tasks"] = Number(float(kind.leading), f"tasks of {len(kind.tasks)} in which a head certainly exceeds the baseline", unit="tasks")
        numbers[f"{kind.name}_heads"] = Number(
            float(kind.heads), "heads that certainly exceed the baseline in one of these tasks, corrected for all heads and roles", unit="heads"
        )
    return numbers


def _sentence(study: "Study") -> dict[str, Number]:
    """The largest weights in an often-quoted example sentence. One sentence is no evidence for a role."""
    try:
        ids, units = tokens_of(study.model.tokenizer, SENTENCE, list(WORDS.values()))
    except ModelError:
        return {}
    if not all(units) or len(set().union(*units)) != sum(map(len, units)):
        return {}  # the tokenizer does not separate these words
    run = study.model.run(torch.tensor([ids]), statistics=())
    layers = [joined(layer_weights(run, layer, study.part)[0].float(), units, units) for layer in range(len(study.passage(0).places))]
    numbers, names = {}, list(WORDS)
    for one, other in PAIRS:
        given = [layer[:, names.index(one), names.index(other)] for layer in layers]
        most = max(range(len(given)), key=lambda layer: float(given[layer].max()))
        head, every = int(given[most].argmax()), torch.cat(given)
        means = f"largest weight of “{one}” on “{other}” in “{SENTENCE}”: head {most}.{head}; mean over heads {float(every.mean()):.2g}"
        hidden = f"“{one}” cannot attend to “{other}”, which comes after it" if bool((every == 0).all()) else means
        numbers[f"“{one}” on “{other}”"] = Number(float(every.max()), hidden, unit="share")
    return numbers


def _summary(kinds: Sequence[Specialty]) -> str:
    return " ".join(_summary_of(kind) for kind in kinds)


def _summary_of(kind: Specialty) -> str:
    what = KINDS[kind.name]
    if kind.found == "not measured":
        missing = kind.name in FILES and kind.why.startswith("no ")
        return f"For {what}: not measured{f'; pass {FILES[kind.name]}' if missing else f'; {kind.why}' if kind.why else ''}."
    best, (layer, head) = kind.best, kind.best.head
    scores = f"head {layer}.{head} scores {percent(best.held)} in “{best.name}”, against {percent(best.rule)} for the best baseline"
    if kind.found == "found":
        return f"For {what}: {scores}{f'; heads exceed the baseline in {kind.leading} of {len(kind.tasks)} tasks' if len(kind.tasks) > 1 else ''}."
    if kind.found == "absent":
        return f"For {what}: no head; {scores}."
    needed = texts_needed(best.lead, kind.margin, best.texts)
    return f"For {what}: not certain; {scores}{f'; about {needed} texts would be needed' if needed else ''}."


def _correction(kinds: Sequence[Specialty]) -> str:
    found, absent = ([KINDS[kind.name] for kind in kinds if kind.found == what] for what in ("found", "absent"))
    return f"For {' and '.join(found)}, not for {' and '.join(absent)}."


def _plot(kinds: Sequence[Specialty]) -> Plot | None:
    series = [
        Series(KINDS[kind.name], [task.rule for task in kind.tasks], [task.lead.value for task in kind.tasks], *_ends(kind)) for kind in kinds if kind.tasks
    ]
    margin = kinds[0].margin
    return Plot("points", "score of the best baseline", "lead of the head, on other texts", series, reference=margin) if series else None


def _ends(kind: Specialty) -> tuple[list[float], list[float]]:
    both = [bounds(task.lead) for task in kind.tasks]
    return [low for low, _ in both], [high for _, high in both]


PUBLISHED = {
    "grammar": "over 75 % for direct objects, determiners, objects of prepositions and of possessives, each by a different head of BERT (Clark 2019)",
    "coreference": "a head of BERT does this quite well (Clark 2019)",
}

ENTRY = Claim(
    sentence="Heads specialise: in grammar, in who is meant, in the same meaning, in what is far away.",
    source="Clark et al. 2019, What Does BERT Look At?; Voita et al. 2019",
    address="https://arxiv.org/abs/1906.04341",
    published="Heads of BERT find direct objects, determiners, objects of prepositions and objects of possessives with over 75 % accuracy, and one resolves "
    "coreference quite well; no head does well at many relations (Clark 2019).",
    definition="A kind of specialty is found if in one of its tasks the head that does best on one half of the texts exceeds the best baseline (a fixed "
    "offset, the nearest mention, uniform weights) by more than 0.05 on the other half. The sentence about the cat is reported as well, but one sentence is no "
    "evidence for a role.",
    refuted_by="A kind in which no head exceeds the baseline on texts not used to choose it.",
    rule="A kind is found if the lower end of a lead is above 0.05, and absent if the upper ends of all leads are below it (95 %, over texts, corrected for "
    "the tasks of the kind). Kept: all four are found. Corrected: some are found, some are absent. Cut: all are absent. Inconclusive otherwise, for example "
    "without annotations.",
    run=run,
)
