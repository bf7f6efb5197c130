"""Claims about heads as the page shows them: each with its card on a model, where it has one."""

from typing import TYPE_CHECKING, Any

from headwise.experiments.available_results import AvailableResults
from headwise.experiments.card_json import card_to_json
from headwise.experiments.investigate import ClaimResult, all_claims, investigate
from headwise.progress import ProgressCallback

if TYPE_CHECKING:
    from headwise.models.model import Model

CLAIM_FIELDS = ("sentence", "source", "address", "published", "definition", "refuted_by", "rule", "about_model")


def claims_with_cards(results: AvailableResults | None) -> list[dict[str, Any]]:
    """All claims in their order, with the cards that exist; without cards where there is no model."""
    if results is None:
        return [_claim(name, None) for name in all_claims()]
    return [_claim(name, result) for name, result in results.results()]


def measure_claims(model: "Model", only: str | None, progress: ProgressCallback) -> list[dict[str, Any]]:
    """Test the claims on a model, or one of them.

    Args:
        progress: called as work advances; the total is 100 (per cent).
    """
    return [_claim(result.name, result) for result in investigate(model, only=only, progress=progress)]


def _claim(name: str, result: ClaimResult | None) -> dict[str, Any]:
    """A claim, and its card where there is one."""
    claim = all_claims()[name]
    card, seconds = (None, None) if result is None else (card_to_json(result.card), result.seconds)
    return {"name": name, **{field: getattr(claim, field) for field in CLAIM_FIELDS}, "card": card, "seconds": seconds}
