"""`hw.investigate`: test published claims about attention heads on a model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, overload

from headwise.catalog import entries
from headwise.deprecation import renamed_parameters
from headwise.errors import ArgumentError, ArgumentTypeError, FingerprintError, ModelError
from headwise.experiments.annotation_files import annotation_files
from headwise.experiments.card import Card
from headwise.experiments.card_json import card_to_json
from headwise.experiments.claim import Claim
from headwise.experiments.claims import ORDER
from headwise.experiments.language_check import check_language
from headwise.experiments.result_cache import ResultCache, key_of_study
from headwise.experiments.study import LENGTH, LIMIT, Study
from headwise.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    from headwise.models.model import Model


@dataclass(frozen=True)
class ClaimResult:
    """A claim and its outcome on a model.

    Attributes:
        name: the claim's name: that of its file.
        seconds: how long its experiment took when it was run.
        model: what the model was opened from.
    """

    name: str
    claim: Claim
    card: Card
    seconds: float
    model: str

    def json(self) -> dict[str, Any]:
        """The claim and its card as plain data. `says` repeats `summary` under its old name, for one release."""
        claim = {name: value for name, value in asdict(self.claim).items() if name != "run"}
        card = card_to_json(self.card)
        return {"name": self.name, **claim, **card, "says": card["summary"], "seconds": self.seconds, "model": self.model}


class ClaimResults(Sequence[ClaimResult]):
    """The results of all claims that were tested, in order."""

    def __init__(self, results: Iterable[ClaimResult]) -> None:
        self._results = tuple(results)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, place: int | str) -> ClaimResult: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[ClaimResult]: ...

    def __getitem__(self, place: int | str | slice) -> ClaimResult | Sequence[ClaimResult]:
        """By position, or by the claim's name."""
        if isinstance(place, str):
            found = {result.name: result for result in self._results}
            if place not in found:
                raise ArgumentError(f"No claim named {place!r} was tested. These were: {', '.join(found)}.")
            return found[place]
        return self._results[place]

    def __iter__(self) -> Iterator[ClaimResult]:
        return iter(self._results)

    def __repr__(self) -> str:
        return f"ClaimResults({', '.join(f'{result.name}: {result.card.verdict}' for result in self._results)})"

    def json(self) -> dict[str, list[dict[str, Any]]]:
        """All results as plain data: `{"claims": [{"name", "verdict", "numbers", ...}]}`."""
        return {"claims": [result.json() for result in self._results]}


@renamed_parameters(tell="progress")
def investigate(
    model: "Model",
    texts: Sequence[str] | None = None,
    *,
    only: str | Iterable[str] | None = None,
    conllu: str | Path | None = None,
    gap: str | Path | None = None,
    winobias: str | Path | Sequence[str | Path] = (),
    length: int = LENGTH,
    limit: int = LIMIT,
    seed: int = 0,
    cache: bool = True,
    progress: ProgressCallback = no_progress,
) -> ClaimResults:
    """Test published claims about attention heads on a model.

    Each claim has an experiment whose numbers decide by a rule written down beforehand: the claim is kept (supported), corrected (partly supported), cut
    (refuted) or inconclusive. Intervals are 95 % bootstrap intervals over texts. A card measured earlier is read from the cache if nothing that it
    depends on has changed since: weights, tokenizer, texts, annotations, settings, code, library versions, number of threads.

    Args:
        model: as `open_model` returns it.
        texts: what to measure on; English prose of 1901 if absent.
        only: names of the claims to test; all if absent. `headwise.experiments.investigate.all_claims()` lists them.
        conllu: a file of parsed sentences, for claims about grammar.
        gap: a file in the GAP format, for claims about pronouns.
        winobias: one or more files in the WinoBias format, likewise.
        length: tokens read of each text.
        limit: texts at most; if there are more, some are drawn at random.
        seed: of every random draw.
        cache: read cached cards, and store new ones.
        progress: called as work advances; the total is 100 (per cent).

    Returns:
        A `ClaimResult` for each claim, by position or by name: `claim` (sentence, source, definition, rule), `card` (verdict, summary, numbers, plot) and
        `seconds`.

    Raises:
        ArgumentError: no claim has that name; texts are too short, or not in the language of the annotations.
        MissingPackage: no texts were given, and the package with the default ones is not installed.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> found = investigate(open_model(LlamaForCausalLM(LlamaConfig(**sizes))), only="more_heads", cache=False)
        >>> found["more_heads"].claim.sentence, found["more_heads"].card.verdict
        ('More heads is strictly better.', 'cut')
    """
    for name, number, least in (("length", length, 8), ("limit", limit, 1), ("seed", seed, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ArgumentError(f"{name} must be an integer of at least {least}, got {number!r}. Leave it out for the default.")
    wanted, annotations = _wanted(only), annotation_files(conllu, gap, winobias)
    study = Study(model, texts, annotations=annotations, seed=seed, length=length, limit=limit)
    if any(claim.about_model for claim in wanted.values()):
        check_language(study.texts, annotations)
    results = _result_cache(study) if cache else None
    return ClaimResults(_tested(study, wanted, results, progress))


def all_claims() -> Mapping[str, Claim]:
    """Every claim by name, in order."""
    found = entries("headwise.experiments.claims")
    return {name: found[name] for name in sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))}


def _wanted(only: str | Iterable[str] | None) -> Mapping[str, Claim]:
    if only is None:
        return all_claims()
    if not isinstance(only, Iterable):
        raise ArgumentTypeError(f"only must be names of claims, got {only!r}. Pass a list of names.")
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in all_claims():
            raise ArgumentError(f"only must be names of claims, got {name!r}. The claims are {', '.join(all_claims())}.")
    return {name: claim for name, claim in all_claims().items() if name in names}


def _tested(study: Study, wanted: Mapping[str, Claim], cache: ResultCache | None, progress: ProgressCallback) -> Iterator[ClaimResult]:
    for place, (name, claim) in enumerate(wanted.items()):
        study.progress = _overall(progress, name, place, len(wanted))
        study.progress("", 0, 1)
        yield _one(study, name, claim, cache)
    progress("", 100, 100)


def _one(study: Study, name: str, claim: Claim, cache: ResultCache | None) -> ClaimResult:
    cache = cache if claim.about_model else None  # the results of training are read at once
    cached = None if cache is None else cache.read(name)
    if cached is not None:
        return ClaimResult(name, claim, *cached, study.model.name)
    start = perf_counter()
    try:
        card = claim.run(study)
    except ModelError as error:  # the model does not allow this measurement: the call was right, and the other claims go on
        card = Card("inconclusive", f"This model does not allow the measurement: {error}")
    seconds = perf_counter() - start
    if cache is not None:
        cache.write(name, card, seconds)
    return ClaimResult(name, claim, card, seconds, study.model.name)


def _overall(progress: ProgressCallback, name: str, place: int, count: int) -> ProgressCallback:
    """One claim's progress as its share of the whole, in per cent."""

    def report(stage: str, done: int, total: int | None) -> None:
        share = min(done / max(total or 0, 1), 1.0)
        progress(f"{name}: {stage}" if stage else name, int(100 * (place + share) / count), 100)

    return report


def _result_cache(study: Study) -> ResultCache | None:
    """The cache of cards measured on this study; None if the content of its model cannot be determined: then each claim is measured anew."""
    try:
        return ResultCache(key_of_study(study))
    except FingerprintError:
        return None
