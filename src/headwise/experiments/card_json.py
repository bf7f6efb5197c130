"""A card as plain data and back: what the command line prints, the page reads and the cache keeps."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headwise.experiments.card import VERDICTS, Card, Number, Plot, Series


def card_to(card: Card) -> dict[str, Any]:
    """Dictionaries, lists, strings and numbers; what is no number is null.

    Example:
        >>> card_to(Card("kept", "It holds.", {"share": Number(0.5)}))["numbers"]["share"]["value"]
        0.5
    """
    return _plain(asdict(card))


def card_from(found: Mapping[str, Any]) -> Card:
    """The card that `card_to` wrote.

    Raises:
        ValueError: it is none.

    Example:
        >>> card = Card("cut", "It does not hold.", {"share": Number(0.5, low=0.25)}, Plot("bars", "x", "y", [Series("a", [1.0], [2.0])]))
        >>> card_from(card_to(card)) == card
        True
    """
    if found["verdict"] not in VERDICTS:
        raise ValueError(found["verdict"])
    numbers = {name: Number(**{**number, "value": _number(number["value"])}) for name, number in found["numbers"].items()}
    plot = found["plot"]
    drawn = None if plot is None else Plot(**{**plot, "series": [Series(**series) for series in plot["series"]]})
    return Card(**{**found, "numbers": numbers, "plot": drawn})


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return data
