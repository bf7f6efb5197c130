"""`hw.investigate`: what people say about heads, put to the test on a model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headwise.catalog import entries
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.experiments.annotated_files import annotated
from headwise.experiments.card import Card
from headwise.experiments.card_json import card_to
from headwise.experiments.claim import Claim
from headwise.experiments.claims import ORDER
from headwise.experiments.language import check_language
from headwise.experiments.result_cache import Kept, print_of, print_of_code, print_of_files
from headwise.experiments.study import LENGTH, LIMIT, Study

if TYPE_CHECKING:
    from headwise.models.model import Model

Tell = Callable[[str, int, int], None]  # what is being done, how many per cent of all are done, 100


@dataclass(frozen=True)
class Told:
    """A claim and what came of it on a model.

    Attributes:
        name: of its file.
        seconds: that its experiment took, when it was made.
        model: what the model was opened from.
    """

    name: str
    claim: Claim
    card: Card
    seconds: float
    model: str

    def json(self) -> dict[str, Any]:
        """The claim and its card as plain data."""
        said = {name: value for name, value in asdict(self.claim).items() if name != "work"}
        return {"name": self.name, **said, **card_to(self.card), "seconds": self.seconds, "model": self.model}


class Claims(Sequence[Told]):
    """The claims that were looked at, in their order."""

    def __init__(self, told: Iterable[Told]) -> None:
        self._told = tuple(told)

    def __len__(self) -> int:
        return len(self._told)

    def __getitem__(self, place: Any) -> Any:
        """By place, or by name."""
        if isinstance(place, str):
            found = {told.name: told for told in self._told}
            if place not in found:
                raise ArgumentError(f"claim must be among those that were looked at: {', '.join(found)}, got {place!r}. Correct the name.")
            return found[place]
        return self._told[place]

    def __iter__(self) -> Iterator[Told]:
        return iter(self._told)

    def __repr__(self) -> str:
        return f"Claims({', '.join(f'{told.name}: {told.card.verdict}' for told in self._told)})"

    def json(self) -> dict[str, list[dict[str, Any]]]:
        """All of it as plain data: `{"claims": [{"name", "verdict", "numbers", ...}]}`."""
        return {"claims": [told.json() for told in self._told]}


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
    tell: Tell = lambda doing, done, total: None,
) -> Claims:
    """Put sentences about heads to the test: each has an experiment, whose numbers say whether it is kept, cut, corrected, or whether nothing can be told.

    Intervals are bootstrap intervals over texts, 95 %. A card that was made before, by the same code from the same weights, texts and settings, is read
    from the cache.

    Args:
        model: as `open_model` gives it.
        texts: to measure on; English prose of 1901 when absent.
        only: names of claims; all when absent. `headwise.experiments.investigate.known()` lists them.
        conllu: a file of parsed sentences, for claims about grammar.
        gap: a file in the format of GAP, for claims about pronouns.
        winobias: one or more files in the format of WinoBias, likewise.
        length: tokens of a text that are read.
        limit: texts, at most; some are drawn at random where there are more.
        seed: of what is drawn at random.
        cache: read cards that were made before, and keep those that are made.
        tell: told of the progress.

    Returns:
        For each claim a `Told`: `claim` (sentence, source, definition, rule), `card` (verdict, says, numbers, plot) and `seconds`. By place or by name.

    Raises:
        ArgumentError: no such claim; texts that are too short, or not in the language of the annotations.
        MissingPackage: no texts were given, and the package with ours is not installed.

    Example:
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = {"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> found = investigate(open_model(LlamaForCausalLM(LlamaConfig(**sizes))), only="more_heads", cache=False)
        >>> found["more_heads"].claim.sentence, len(found)
        ('More heads is strictly better.', 1)
    """
    for name, number, least in (("length", length, 8), ("limit", limit, 1), ("seed", seed, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ArgumentError(f"{name} must be a whole number from {least}, got {number!r}. Leave it out for the usual one.")
    wanted, notes = _wanted(only), annotated(conllu, gap, winobias)
    study = Study(model, texts, annotated=notes, seed=seed, length=length, limit=limit)
    if any(claim.about_model for claim in wanted.values()):
        check_language(study.texts, notes)
    kept = kept_for(study, notes.files) if cache else None
    return Claims(_told(study, wanted, kept, tell))


def known() -> Mapping[str, Claim]:
    """Every claim by name, in their order."""
    found = entries("headwise.experiments.claims")
    return {name: found[name] for name in sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))}


def _wanted(only: str | Iterable[str] | None) -> Mapping[str, Claim]:
    if only is None:
        return known()
    if not isinstance(only, Iterable):
        raise ArgumentTypeError(f"only must be names of claims, got {only!r}. Pass a list of names.")
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in known():
            raise ArgumentError(f"only must name claims among {', '.join(known())}, got {name!r}. Correct the name.")
    return {name: claim for name, claim in known().items() if name in names}


def _told(study: Study, wanted: Mapping[str, Claim], kept: Kept | None, tell: Tell) -> Iterator[Told]:
    for place, (name, claim) in enumerate(wanted.items()):
        study.tell = _within(tell, name, place, len(wanted))
        study.tell("", 0, 1)
        yield _one(study, name, claim, kept)
    tell("", 100, 100)


def _one(study: Study, name: str, claim: Claim, kept: Kept | None) -> Told:
    kept = kept if claim.about_model else None  # what was trained is read at once
    before = None if kept is None else kept.read(name)
    if before is not None:
        return Told(name, claim, *before, study.model.name)
    start = perf_counter()
    try:
        card = claim.work(study)
    except ModelError as error:  # what this model does not let us see is no fault of the call: the other claims go on
        card = Card("can't tell", f"This cannot be measured on this model: {error}")
    seconds = perf_counter() - start
    if kept is not None:
        kept.write(name, card, seconds)
    return Told(name, claim, card, seconds, study.model.name)


def _within(tell: Tell, name: str, place: int, count: int) -> Tell:
    """Progress of one claim as its part of the whole, in per cent."""
    return lambda doing, done, total: tell(f"{name}: {doing}" if doing else name, int(100 * (place + min(done / max(total, 1), 1.0)) / count), 100)


def kept_for(study: Study, files: Sequence[Path] = ()) -> Kept:
    """The cards that were made before of these weights, texts and settings."""
    model = study.model
    texts = study.texts if model.tokenizer is not None else []
    about = {"model": print_of(model.hf, model.tokenizer), "code": print_of_code(), "texts": texts, "files": print_of_files(files)}
    return Kept({**about, "length": study.length, "seed": study.seed})
