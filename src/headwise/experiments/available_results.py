"""The cards that can be shown without measuring: cached ones, and those of experiments that don't involve the model."""

from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.experiments.card import Card
from headwise.experiments.claim import Claim
from headwise.experiments.investigate import ClaimResult, all_claims
from headwise.experiments.result_cache import ResultCache, key_of_study
from headwise.experiments.study import Study

if TYPE_CHECKING:
    from headwise.models.model import Model


class AvailableResults:
    """What `hw.investigate` can return for a model without measuring, for its default texts and settings.

    Args:
        model: its weights are read each time, to find the cards measured on them.
    """

    def __init__(self, model: "Model") -> None:
        self.study = Study(model)

    def results(self) -> list[tuple[str, ClaimResult | None]]:
        """Every claim's name and result in order; None for a claim that has not been measured yet."""
        cache = self._result_cache()
        return [(name, self._one(name, cache)) for name in all_claims()]

    def _one(self, name: str, cache: ResultCache | None) -> ClaimResult | None:
        claim = all_claims()[name]
        cached = None if cache is None else cache.read(name)
        found = cached if claim.about_model else self._trained(claim)
        return None if found is None else ClaimResult(name, claim, *found, self.study.model.name)

    def _trained(self, claim: Claim) -> tuple[Card, float] | None:
        """The card from the stored training results; None if this installation lacks them."""
        try:
            return claim.run(self.study), 0.0
        except OSError:
            return None

    def _result_cache(self) -> ResultCache | None:
        """For the model as it is now; None if nothing can have been measured: it has no tokenizer, or the default texts are not installed."""
        try:
            return ResultCache(key_of_study(self.study))
        except HeadwiseError:
            return None
