"""A card as plain data and back: the JSON that the command line prints, the page reads and the cache stores."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headwise.experiments.card import VERDICTS, Card, Number, Plot, Series

RENAMED = {"says": "summary", "across": "x_label", "up": "y_label", "equal": "reference"}  # keys of cards up to version 0.1.0
OLD_VERDICTS = {"can't tell": "inconclusive"}


def card_to_json(card: Card) -> dict[str, Any]:
    """The card as dictionaries, lists, strings and numbers; NaN and infinity become None.

    Example:
        >>> card_to_json(Card("kept", "It holds.", {"share": Number(0.5)}))["numbers"]["share"]["value"]
        0.5
    """
    return _plain(asdict(card))


def card_from_json(stored: Mapping[str, Any]) -> Card:
    """The card that `card_to_json` wrote, now or in version 0.1.0.

    Raises:
        ValueError: the verdict is unknown.

    Example:
        >>> card = Card("cut", "It does not hold.", {"share": Number(0.5, low=0.25)}, Plot("bars", "x", "y", [Series("a", [1.0], [2.0])]))
        >>> card_from_json(card_to_json(card)) == card
        True
    """
    fields = up_to_date(stored)
    if fields["verdict"] not in VERDICTS:
        raise ValueError(fields["verdict"])
    fields["numbers"] = {name: Number(**{**number, "value": _number(number["value"])}) for name, number in fields["numbers"].items()}
    if fields["plot"] is not None:
        fields["plot"] = Plot(**{**fields["plot"], "series": [Series(**series) for series in fields["plot"]["series"]]})
    return Card(**fields)


def up_to_date(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored card, or a claim with its card, with the keys and the verdict of today.

    Example:
        >>> up_to_date({"verdict": "can't tell", "says": "Too few texts.", "plot": None})
        {'verdict': 'inconclusive', 'summary': 'Too few texts.', 'plot': None}
    """
    fields = _renamed(stored)
    fields["verdict"] = OLD_VERDICTS.get(fields["verdict"], fields["verdict"])
    if fields["plot"] is not None:
        fields["plot"] = _renamed(fields["plot"])
    return fields


def _renamed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the keys; where both names of a key are there, the new one's value."""
    return {RENAMED.get(name, name): value for name, value in stored.items() if RENAMED.get(name) not in stored}


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
