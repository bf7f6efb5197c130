"""A cache of cards, keyed by weights, texts, settings, code, library versions and arithmetic."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.experiments.annotation_files import AnnotationFiles
from headwise.experiments.card import Card
from headwise.experiments.card_json import card_from_json, card_to_json
from headwise.storage.cache import DIGITS, Cache
from headwise.storage.environment import arithmetic, environment
from headwise.storage.fingerprint import Key, fingerprint, fingerprint_file, key_of

if TYPE_CHECKING:
    from headwise.experiments.study import Study

CACHE = Cache("claims", format=2)


@dataclass(frozen=True)
class ResultCache:
    """The cached cards of one model with the same texts and settings.

    Attributes:
        key: of all that they depend on, but for the claim; `key_of_study` makes it.
    """

    key: Key

    def read(self, claim: str) -> tuple[Card, float] | None:
        """A claim's card and how many seconds it took; None where it was not made, or the file is damaged."""
        found = CACHE.read(self._name(claim), self.key)
        try:
            return None if found is None else (card_from_json(found["card"]), float(found["seconds"]))
        except (ValueError, KeyError, TypeError):
            return None

    def write(self, claim: str, card: Card, seconds: float) -> None:
        """Store a card: whole, or not at all.

        Raises:
            ModelError: the cache cannot be written.
        """
        CACHE.write(self._name(claim), self.key, {"card": card_to_json(card), "seconds": seconds})

    def _name(self, claim: str) -> str:
        return f"{claim}-{fingerprint(self.key)[:DIGITS]}"


def key_of_study(study: "Study") -> Key:
    """All that the cards of a study depend on.

    Raises:
        FingerprintError: the content of the model cannot be determined.
        HeadwiseError: its texts cannot be read, or none are installed.
    """
    model = study.model
    texts = {"cut": study.texts, "whole": study.full_texts} if model.tokenizer is not None else {}
    settings = {"length": study.length, "limit": study.limit, "seed": study.seed, "own texts": study.own_texts}
    given = {"texts": texts, "annotations": _contents(study.annotations), "settings": settings}
    return key_of(**environment(), **arithmetic(), model=model.hf, tokenizer=model.tokenizer, note=model.note, **given)


def _contents(files: AnnotationFiles) -> dict[str, object]:
    """Each file of annotations by what it is for; the name of one that cannot be read, which those who need it will report."""
    return {name: [_content(path) for path in (paths if isinstance(paths, tuple) else (paths,))] for name, paths in vars(files).items() if paths is not None}


def _content(path: Path) -> str:
    return fingerprint_file(path) if path.is_file() else str(path)
