"""Preparing texts for claims: at most so many of them, each at most so long."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from headwise.models.model import Model

SHORTEST = 8  # tokens: a shorter text shows too little of what heads attend to


def sample_texts(texts: Sequence[str], limit: int, seed: int) -> list[str]:
    """At most `limit` of the texts, drawn at random, in their original order."""
    if len(texts) <= limit:
        return list(texts)
    return [texts[place] for place in sorted(Random(seed).sample(range(len(texts)), limit))]


def truncate_texts(model: "Model", texts: Sequence[object], length: int) -> list[str]:
    """The beginning of each text, at most `length` tokens long.

    Raises:
        ArgumentTypeError: an element is not a str.
        ArgumentError: a text is too short.
    """
    return [_truncated(model.tokenizer, text, number, length) for number, text in enumerate(texts, start=1)]


def _truncated(tokenizer: Any, text: object, number: int, length: int) -> str:
    if not isinstance(text, str):
        raise ArgumentTypeError(f"texts must be a list of str, got {type(text).__name__} as element {number}.")
    ids = tokenizer(text)["input_ids"]
    if len(ids) < SHORTEST:
        raise ArgumentError(f"Each text needs at least {SHORTEST} tokens, got {len(ids)} in {text[:40]!r}. Join it with another text, or leave it out.")
    if len(ids) <= length:
        return text
    return _fitting(tokenizer, text, length)


def _fitting(tokenizer: Any, text: str, length: int) -> str:
    """As many whole words as fit; as many characters if not even one word does, as in languages written without spaces."""
    words = text.split(" ")
    fit = _most(words, lambda some: len(tokenizer(" ".join(some))["input_ids"]) <= length)
    if fit:
        return " ".join(words[:fit])
    return text[: _most(text, lambda some: len(tokenizer(some)["input_ids"]) <= length)]


def _most(pieces: Any, fits: Callable[[Any], bool]) -> int:
    """The largest number of leading pieces that fit, by bisection."""
    low, high = 0, len(pieces)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(pieces[:middle]) else (low, middle - 1)
    return low
