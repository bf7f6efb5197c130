"""What people say about heads, as the page reads it: each claim with the card that it has on a model."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.experiments.available_results import AvailableResults
from headwise.experiments.card_json import card_to_json
from headwise.experiments.investigate import ClaimResult, all_claims, investigate

if TYPE_CHECKING:
    from headwise.models.model import Model

FACTS = ("sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model")


def every(hand: AvailableResults | None) -> list[dict[str, Any]]:
    """All claims in their order, with the cards that are there; none without a model."""
    if hand is None:
        return [entry(name, None) for name in all_claims()]
    return [entry(name, told) for name, told in hand.results()]


def measured(model: "Model", only: str | None, tell: Callable[[str, int, int], None]) -> list[dict[str, Any]]:
    """The claims put to the test, or one of them.

    Args:
        tell: told of the progress: what is done, and how many per cent of all are.
    """
    return [entry(told.name, told) for told in investigate(model, only=only, progress=tell)]


def entry(name: str, told: ClaimResult | None) -> dict[str, Any]:
    """A claim, and its card where there is one."""
    claim = all_claims()[name]
    card, seconds = (None, None) if told is None else (card_to_json(told.card), told.seconds)
    return {"name": name, **{fact: getattr(claim, fact) for fact in FACTS}, "card": card, "seconds": seconds}
