"""Texts as claims read them: so many of them, each so long."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from headwise.models.model import Model

SHORTEST = 8  # tokens: fewer say nothing of where a head looks


def draw(texts: Sequence[str], limit: int, seed: int) -> list[str]:
    """At most so many of the texts, drawn at random, in their order."""
    if len(texts) <= limit:
        return list(texts)
    return [texts[place] for place in sorted(Random(seed).sample(range(len(texts)), limit))]


def cut(model: "Model", texts: Sequence[Any], length: int) -> list[str]:
    """The beginning of each text, of so many tokens.

    Raises:
        ArgumentTypeError: something that is no text.
        ArgumentError: a text that is too short.
    """
    return [_beginning(model.tokenizer, text, number, length) for number, text in enumerate(texts, start=1)]


def _beginning(tokenizer: Any, text: Any, number: int, length: int) -> str:
    if not isinstance(text, str):
        raise ArgumentTypeError(f"texts must be texts, got {type(text).__name__} as the {number}. of them. Pass a list of str.")
    ids = tokenizer(text)["input_ids"]
    if len(ids) < SHORTEST:
        raise ArgumentError(f"texts must each have at least {SHORTEST} tokens, got {len(ids)} in {text[:40]!r}. Join it to its neighbour, or leave it out.")
    if len(ids) <= length:
        return text
    return _fitting(tokenizer, text, length)


def _fitting(tokenizer: Any, text: str, length: int) -> str:
    """As many whole words as fit; as many letters, where not even one word does, as in languages that put no spaces."""
    words = text.split(" ")
    fit = _most(words, lambda some: len(tokenizer(" ".join(some))["input_ids"]) <= length)
    if fit:
        return " ".join(words[:fit])
    return text[: _most(text, lambda some: len(tokenizer(some)["input_ids"]) <= length)]


def _most(pieces: Any, fits: Callable[[Any], bool]) -> int:
    """The largest number of first pieces that fit."""
    low, high = 0, len(pieces)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(pieces[:middle]) else (low, middle - 1)
    return low
