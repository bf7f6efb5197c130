"""The cards that can be shown without measuring: cached ones, and those of experiments that don't involve the model."""

from functools import cached_property
from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.experiments.card import Card
from headwise.experiments.claim import Claim
from headwise.experiments.investigate import ClaimResult, all_claims, result_cache_for
from headwise.experiments.result_cache import ResultCache
from headwise.experiments.study import Study

if TYPE_CHECKING:
    from headwise.models.model import Model


class AvailableResults:
    """What `hw.investigate` can return for a model without measuring, for its default texts and settings.

    Args:
        model: its weights are read once, to find the cards measured on them.
    """

    def __init__(self, model: "Model") -> None:
        self.study = Study(model)

    def results(self) -> list[tuple[str, ClaimResult | None]]:
        """Every claim's name and result in order; None for a claim that has not been measured yet."""
        return [(name, self._one(name)) for name in all_claims()]

    def _one(self, name: str) -> ClaimResult | None:
        claim = all_claims()[name]
        found = self._cached(name) if claim.about_model else self._trained(claim)
        return None if found is None else ClaimResult(name, claim, *found, self.study.model.name)

    def _trained(self, claim: Claim) -> tuple[Card, float] | None:
        """The card from the stored training results; None if this installation lacks them."""
        try:
            return claim.run(self.study), 0.0
        except OSError:
            return None

    def _cached(self, name: str) -> tuple[Card, float] | None:
        return None if self._cache is None else self._cache.read(name)

    @cached_property
    def _cache(self) -> ResultCache | None:
        """None if nothing can have been measured: the model has no tokenizer, or the default texts are not installed."""
        try:
            return result_cache_for(self.study)
        except HeadwiseError:
            return None
