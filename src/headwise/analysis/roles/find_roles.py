"""`hw.roles`: which heads play which roles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headwise.analysis.layer_weights import layer_weights
from headwise.analysis.roles import random_prose as prose
from headwise.analysis.roles.catalog import roles as known
from headwise.analysis.roles.corpus import AlignedPairs, Corpus
from headwise.analysis.roles.evidence import Asking, Evidence, gather
from headwise.analysis.roles.pronouns import read_gap, read_winobias
from headwise.analysis.roles.role import Reading, Role
from headwise.analysis.roles.role_dataset import role_dataset
from headwise.analysis.roles.role_verdict import MARGIN, RoleVerdict, judge
from headwise.analysis.roles.sentences import read_conllu
from headwise.analysis.roles.tokenized_text import drawn, longest, special_tokens
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    import xarray

    from headwise.models.model import Model
    from headwise.models.run import Run

CORRECTION = "`found` holds for each task by itself (95 %), not corrected for the number of tasks; `role` is corrected for all heads and tasks (Bonferroni)"
JOINED = 8  # sentences that are read as one text, for roles that need no grammar
FEWEST_TEXTS, FEWEST = 8, 40  # texts and questions: a task with less is left out


@dataclass(frozen=True, eq=False)
class RoleQuery:
    """A role that is asked for, of a part of the model, and what it is looked for in."""

    name: str
    part: str
    corpus: Corpus

    @property
    def role(self) -> Role:
        return known()[self.name]


@dataclass(frozen=True)
class RoleResult:
    """What a model showed of one role: a verdict on each task, and why there is none on others."""

    name: str
    part: str
    verdicts: Mapping[str, RoleVerdict]
    left_out: Mapping[str, str]


@renamed_parameters(tell="progress")
def roles(
    model: "Model",
    roles: str | Iterable[str] = "all",
    *,
    texts: Sequence[str] = (),
    conllu: str | Path | None = None,
    gap: str | Path | None = None,
    winobias: str | Path | Sequence[str | Path] = (),
    aligned: Sequence[AlignedPairs] = (),
    part: str | None = None,
    limit: int = 400,
    margin: float = MARGIN,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> "xarray.Dataset":
    """Find out which heads play which roles.

    Every head answers questions of where a token should look. The head that answers best on one half of the texts is judged on
    the other half, against the simpler rule that was best on the first: it plays the role if the lower end of the interval of
    its lead lies above `margin`. Intervals are bootstrap intervals over texts, 95 %.

    Args:
        model: as `open_model` gives it.
        roles: names, "all", or "grammar:nsubj" for one relation; `headwise.analysis.roles.catalog.roles()` lists them.
        texts: of any length, the first 512 tokens of each; plain English made at random when absent.
        conllu: a file of parsed sentences, for "grammar"; its sentences are the texts, too, where none are given.
        gap: a file in the format of GAP, for "coreference".
        winobias: one or more files in the format of WinoBias, likewise.
        aligned: pairs of tokens that belong together, for "alignment"; see `headwise.analysis.roles.aligned_pairs`.
        part: which attention of the model, where it has several.
        limit: texts for each role, at most. Roles on made-up texts read fewer: induction and duplicate_token 48, retrieval 32.
        margin: by how much a head must beat the baseline.
        seed: of what is drawn at random.
        progress: called as (stage, done, total) while it works.

    Returns:
        A Dataset. By task, layer and head: `score`, `low`, `high`, and `gain` over the baseline with `gain_low`, `gain_high`. By task: `found`,
        `best_layer`, `best_head`, `held` (its score on the other half), `baseline`, `held_gain`, each with `_low` and `_high`; `rule` (the baseline's name),
        `texts`, `questions`. By layer and head: `role`, the task of the surest lead, or "none". `attrs["left_out"]` says what could not be asked, and why.

    Raises:
        ArgumentError: no such role; a file that cannot be read; too little text for all of the roles. A role, or a relation, with too little text beside
            others that have enough is left out and named in `attrs["left_out"]`.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import BertConfig, BertModel
        >>> model = open_model(BertModel(BertConfig(hidden_size=12, num_attention_heads=3, num_hidden_layers=2, intermediate_size=8, vocab_size=200)))
        >>> found = roles(model, "induction", limit=12)
        >>> found.score.shape, found.found.values.tolist(), str(found.role.values[0, 0])
        ((1, 2, 3), [False], 'none')
    """
    asked = _asked(roles)
    for name, number in (("limit", limit), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ArgumentError(f"{name} must be a whole number from 0, got {number!r}. Pass 400, say.")
    sentences = read_conllu(conllu) if conllu is not None else ()
    pronouns = [*(read_gap(gap) if gap is not None else ()), *read_winobias([winobias] if isinstance(winobias, str | Path) else winobias)]
    texts = list(texts) or [" ".join(sentence.text for sentence in sentences[i : i + JOINED]) for i in range(0, len(sentences), JOINED)]
    corpus = Corpus(texts, sentences, pronouns, aligned, limit=limit, seed=seed)
    probe = _probe(model, corpus)
    parts = {name: _part(probe, known()[name], part) for name in asked}
    ahead = {where: _sees_ahead(probe, where) for where in set(parts.values())}
    casts = [RoleQuery(name, parts[name], replace(corpus, relations=relations, ahead=ahead[parts[name]])) for name, relations in asked.items()]
    results = _played(model, casts, margin, progress)
    results = {name: _with_missing(results[name], relations) for name, relations in asked.items()}
    if len(results) == 1 and not next(iter(results.values())).verdicts:
        (name, result), *_ = results.items()
        raise ArgumentError(f"There is too little to judge {name} by: {_listed(result.left_out)}.")
    return _dataset(model, list(results.values()), probe, part, margin)


def _with_missing(result: RoleResult, relations: Sequence[str]) -> RoleResult:
    """The result with every requested relation named that the sentences do not have often enough."""
    reasons = " ".join([*result.verdicts, *result.left_out])
    missing = {f"grammar:{relation}": "the sentences have no such relation" for relation in relations if relation not in reasons}
    return replace(result, left_out={**result.left_out, **missing})


def _asked(asked: str | Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The roles, each with the relations of grammar that it is asked about."""
    if not isinstance(asked, Iterable):
        raise ArgumentTypeError(f"roles must be 'all' or names, got {asked!r}. Pass a list of names.")
    found: dict[str, tuple[str, ...]] = {}
    for word in [asked] if isinstance(asked, str) else asked:
        name, _, relation = word.partition(":")
        if name not in known() and word != "all":
            raise ArgumentError(f"roles must be 'all' or among {', '.join(known())}, got {word!r}. Correct the name.")
        if relation and name != "grammar":
            raise ArgumentError(f"roles must name a relation for grammar only, got {word!r}. Write {name!r}.")
        for one in known() if word == "all" else (name,):
            found[one] = (*found.get(one, ()), *((relation,) if relation else ()))
    return found


def _probe(model: "Model", corpus: Corpus) -> "Run":
    """A short run, which shows what parts the model has and whether it sees ahead."""
    if corpus.aligned:
        return model.run(corpus.aligned[0].what, statistics=())
    if model.tokenizer is not None:
        return model.run(torch.tensor(model.tokenizer(prose.text(corpus.random(), 2))["input_ids"][: longest(model)]), statistics=())
    around = special_tokens(model)
    return model.run(around.around(drawn(corpus.random(), around, 9)), statistics=())


def _part(probe: "Run", role: Role, part: str | None) -> str:
    """The part that a role is about: the one asked for; else the first to another sequence for a role that needs one, the first to its own for others."""
    parts = list(probe.parts)
    if part is not None and part not in parts:
        raise ArgumentError(f"part must be one of {', '.join(parts)} in this model, got {part!r}. Choose one.")
    if part is not None or len(parts) == 1:
        return part or parts[0]
    return next((name for name in parts if ("cross" in name) == role.cross), parts[0])


def _sees_ahead(probe: "Run", part: str) -> bool:
    """Whether any head looks at what comes after."""
    layers = probe.statistics_of(part).sizes["layer"]
    return any(bool((layer_weights(probe, layer, part).triu(1) > 0).any()) for layer in range(layers))


def _played(model: "Model", casts: Sequence[RoleQuery], margin: float, progress: ProgressCallback) -> dict[str, RoleResult]:
    """Ask, and judge what was asked often enough. Roles that read the same are asked in the same passes."""
    scenes: dict[str, RoleResult] = {}
    together: dict[Any, list[tuple[RoleQuery, Asking, Sequence[Reading]]]] = {}
    for cast in casts:
        key = (cast.role.read, cast.part)
        try:
            asking = _asking(model, cast)
            readings = together[key][0][2] if key in together else list(cast.role.read(model, cast.corpus))
        except ModelError as error:
            scenes[cast.name] = RoleResult(cast.name, cast.part, {}, {cast.name: str(error)})
            continue
        together.setdefault(key, []).append((cast, asking, readings))
    done, total = count(1), sum(len(members[0][2]) for members in together.values())
    progress(", ".join(cast.name for cast in casts if cast.name not in scenes), 0, total)
    for (_, part), members in together.items():
        names = ", ".join(cast.name for cast, *_ in members)
        found = gather(model, members[0][2], [asking for _, asking, _ in members], part, lambda names=names: progress(names, next(done), total))
        scenes |= {cast.name: _scene(cast, found[cast.name], margin) for cast, *_ in members}
    return scenes


def _asking(model: "Model", cast: RoleQuery) -> Asking:
    """Raises: ModelError: there is nothing to ask with."""
    if cast.role.needs and not getattr(cast.corpus, cast.role.needs):
        raise ModelError(f"no {cast.role.needs} were given")
    return Asking(cast.name, cast.role.ask(model, cast.corpus), cast.role.hit)


def _scene(cast: RoleQuery, evidence: Mapping[str, Evidence], margin: float) -> RoleResult:
    name, part, corpus = cast.name, cast.part, cast.corpus
    enough = {task: found for task, found in evidence.items() if len(found.counts) >= FEWEST_TEXTS and found.counts.sum() >= FEWEST}
    few = {f"{name}: {task}": _too_few(found) for task, found in evidence.items() if task not in enough}
    left_out = few or ({} if enough else {name: "the texts hold no instance of it"})
    return RoleResult(name, part, {f"{name}: {task}": judge(found, margin, corpus.seed) for task, found in sorted(enough.items())}, left_out)


def _too_few(found: Evidence) -> str:
    return f"{int(found.counts.sum())} instances in {len(found.counts)} texts, of {FEWEST} in {FEWEST_TEXTS} that are needed"


def _listed(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{task}: {reason}" for task, reason in list(left_out.items())[:3]) or "nothing"


def _dataset(model: "Model", scenes: Sequence[RoleResult], probe: "Run", part: str | None, margin: float) -> "xarray.Dataset":
    """The tasks of one part: that of most of the scenes, where roles are about several."""
    parts = [scene.part for scene in scenes if scene.verdicts]
    left_out = {task: reason for scene in scenes for task, reason in scene.left_out.items()}
    if not parts:
        raise ArgumentError(f"roles must be ones that this model can be asked about, got none of them: {_listed(left_out)}.")
    shown = part or max(parts, key=parts.count)
    verdicts = {task: (scene.name, verdict) for scene in scenes if scene.part == shown for task, verdict in scene.verdicts.items()}
    left_out |= {scene.name: f"it is about {scene.part}: pass part={scene.part!r}" for scene in scenes if scene.verdicts and scene.part != shown}
    found = role_dataset(verdicts, probe.statistics_of(shown)["layer_name"].values.tolist(), margin)
    return found.assign_attrs(model=model.name, part=shown, margin=margin, left_out=left_out, notes=list(probe.notes), correction=CORRECTION)
