"""Are there heads for grammar, for who is meant, for the same meaning, for what is far away?"""

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

KINDS = {"grammar": "grammar", "coreference": "who a pronoun stands for", "same_meaning": "the same meaning", "long_range": "what is far away"}
LONG = "long_range"
FILES = {"grammar": "a file of parsed sentences (--conllu)", "coreference": "a file of resolved pronouns (--gap or --winobias)"}
SENTENCE = "The cat sat on the mat."
WORDS = {"The": (0, 3), "cat": (4, 7), "sat": (8, 11), "the": (15, 18), "mat": (19, 22)}
PAIRS = (("sat", "cat"), ("sat", "mat"), ("The", "cat"), ("the", "mat"), ("mat", "cat"))  # from, to
Found = Literal["found", "absent", "unsure", "not measured"]


@dataclass(frozen=True)
class TaskResult:
    """One task, as the head that was chosen on one half of the texts does it on the other half.

    Attributes:
        lead: over the best simpler rule, its ends corrected for all tasks of the kind.
        texts: of both halves.
    """

    name: str
    head: tuple[int, int]
    held: float
    rule: float
    lead: Number
    texts: int


@dataclass(frozen=True)
class Specialty:
    """What came out for one kind of specialty."""

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
        """Tasks in which a head leads for certain."""
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


def _kind(cast: "xarray.Dataset", name: str) -> Specialty:
    asked = [task for task, role in zip(cast.task.values.tolist(), cast.of_role.values.tolist(), strict=True) if role == name]
    left_out = cast.attrs["left_out"]
    why = next((reason for task, reason in left_out.items() if task == name or task.startswith(f"{name}:")), "")
    return Specialty(name, tuple(_task(cast.sel(task=task), task, len(asked)) for task in asked), _leading(cast, asked), float(cast.attrs["margin"]), why)


def _long_range(study: "Study") -> Specialty:
    """Of the texts in full: a token must have others that are far away."""
    least = 2 * AWAY[0]
    long = [text for text in study.full_texts if len(study.model.tokenizer(text)["input_ids"]) > least]
    if len(long) < FEWEST_TEXTS:
        return Specialty(LONG, (), 0, MARGIN, f"of {FEWEST_TEXTS} texts with over {least} tokens that are needed {len(long)} are there")
    tell = study.progress
    return _kind(
        roles(study.model, [LONG], texts=long, part=study.part, seed=study.seed, progress=lambda what, done, total: tell(f"role {what}", done, total)), LONG
    )


def _leading(cast: "xarray.Dataset", asked: list[str]) -> int:
    """Heads that certainly lead in one of these tasks, all heads and tasks of all roles at once."""
    some = cast.sel(task=asked)
    width = (some["gain_high"].values - some["gain_low"].values) / 2
    certain = some["gain"].values - width * _wider(cast["gain"].size) > cast.attrs["margin"]
    return int(certain.any(0).sum())


def _wider(comparisons: int) -> float:
    """What an interval of 95 % is multiplied by so that so many hold at once (Bonferroni)."""
    tails = torch.tensor([1 - 0.025 / max(comparisons, 1), 0.975], dtype=torch.float64)
    return float(torch.special.ndtri(tails)[0] / torch.special.ndtri(tails)[1])


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
        said = f"lead of head {layer}.{head} over the best simpler rule in “{best.name}”, on other texts; corrected for {len(kind.tasks)} tasks"
        numbers[kind.name] = Number(best.lead.value, said, best.lead.low, best.lead.high, "share", PUBLISHED.get(kind.name))
        numbers[f"{kind.name}_scores"] = Number(best.held, f"what it scores there; the rule {best.rule:.3g}", unit="share")
        numbers[f"{kind.name}_tasks"] = Number(float(kind.leading), f"tasks of {len(kind.tasks)} in which a head leads for certain", unit="tasks")
        numbers[f"{kind.name}_heads"] = Number(
            float(kind.heads), "heads that lead the simpler rule in one of these for certain, all heads and roles at once", unit="heads"
        )
    return numbers


def _sentence(study: "Study") -> dict[str, Number]:
    """The example that is often given, on this model: the most that any head gives. One sentence makes no role."""
    try:
        ids, units = tokens_of(study.model.tokenizer, SENTENCE, list(WORDS.values()))
    except ModelError:
        return {}
    if not all(units) or len(set().union(*units)) != sum(map(len, units)):
        return {}  # the tokenizer does not keep these words apart
    run = study.model.run(torch.tensor([ids]), statistics=())
    layers = [joined(layer_weights(run, layer, study.part)[0].float(), units, units) for layer in range(len(study.passage(0).places))]
    numbers, names = {}, list(WORDS)
    for one, other in PAIRS:
        given = [layer[:, names.index(one), names.index(other)] for layer in layers]
        most = max(range(len(given)), key=lambda layer: float(given[layer].max()))
        head, every = int(given[most].argmax()), torch.cat(given)
        said = f"most weight of “{one}” on “{other}” in “{SENTENCE}”: head {most}.{head}; the mean head gives {float(every.mean()):.2g}"
        hidden = f"“{one}” cannot look at “{other}”, which comes after it" if bool((every == 0).all()) else said
        numbers[f"“{one}” on “{other}”"] = Number(float(every.max()), hidden, unit="share")
    return numbers


def _summary(kinds: Sequence[Specialty]) -> str:
    return " ".join(_summary_of(kind) for kind in kinds)


def _summary_of(kind: Specialty) -> str:
    what = KINDS[kind.name]
    if kind.found == "not measured":
        missing = kind.name in FILES and kind.why.startswith("no ")
        return f"For {what}: can't tell{f', pass {FILES[kind.name]}' if missing else f', {kind.why}' if kind.why else ''}."
    best, (layer, head) = kind.best, kind.best.head
    scores = f"head {layer}.{head} scores {percent(best.held)} in “{best.name}” where the best simpler rule has {percent(best.rule)}"
    if kind.found == "found":
        return f"For {what}: {scores}{f'; heads lead in {kind.leading} of {len(kind.tasks)} tasks' if len(kind.tasks) > 1 else ''}."
    if kind.found == "absent":
        return f"For {what}: no head; {scores}."
    needed = texts_needed(best.lead, kind.margin, best.texts)
    return f"For {what}: not certain; {scores}{f'; about {needed} texts would tell' if needed else ''}."


def _correction(kinds: Sequence[Specialty]) -> str:
    found, absent = ([KINDS[kind.name] for kind in kinds if kind.found == what] for what in ("found", "absent"))
    return f"For {' and '.join(found)}, not for {' and '.join(absent)}."


def _plot(kinds: Sequence[Specialty]) -> Plot | None:
    series = [
        Series(KINDS[kind.name], [task.rule for task in kind.tasks], [task.lead.value for task in kind.tasks], *_ends(kind)) for kind in kinds if kind.tasks
    ]
    margin = kinds[0].margin
    return Plot("points", "what the best simpler rule scores", "lead of the head, on other texts", series, reference=margin) if series else None


def _ends(kind: Specialty) -> tuple[list[float], list[float]]:
    both = [bounds(task.lead) for task in kind.tasks]
    return [low for low, _ in both], [high for _, high in both]


PUBLISHED = {
    "grammar": "over 75 % for direct objects, determiners, objects of prepositions and of possessives, each by another head of BERT (Clark 2019)",
    "coreference": "a head of BERT does so quite well (Clark 2019)",
}

ENTRY = Claim(
    sentence="Heads specialise: in grammar, in who is meant, in the same meaning, in what is far away.",
    source="Clark et al. 2019, What Does BERT Look At?; Voita et al. 2019",
    address="https://arxiv.org/abs/1906.04341",
    published="Heads of BERT find direct objects, determiners, objects of prepositions and objects of possessives with over 75 % accuracy, and one finds who "
    "is meant quite well; no head does well at many relations (Clark 2019).",
    definition="A kind of specialty is found when in one of its tasks the head that does best on one half of the texts leads the best simpler rule (a fixed "
    "offset, the nearest mention, the same weight everywhere) by more than 0.05 on the other half. The sentence about the cat is looked at, too, but one "
    "sentence makes no role.",
    refuted_by="A kind in which no head leads the simpler rule on texts that it was not chosen on.",
    rule="A kind is found when the lower end of a lead is above 0.05, absent when the upper ends of all are below it (95 %, over texts, corrected for the "
    "tasks of the kind). Kept: all four are found. Corrected: some are, some are absent. Cut: all are absent. Can't tell: else, such as without annotations.",
    run=run,
)
