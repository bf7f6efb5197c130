"""The cards that can be shown at once: those that were measured before, and those of experiments that the model at hand plays no part in."""

from functools import cached_property
from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.experiments.card import Card
from headwise.experiments.claim import Claim
from headwise.experiments.investigate import Told, kept_for, known
from headwise.experiments.result_cache import Kept
from headwise.experiments.study import Study

if TYPE_CHECKING:
    from headwise.models.model import Model


class AtHand:
    """What `hw.investigate` would answer about a model without measuring anything, with its usual texts and settings.

    Args:
        model: whose weights are read once, to find the cards that were made from them.
    """

    def __init__(self, model: "Model") -> None:
        self.study = Study(model)

    def told(self) -> list[tuple[str, Told | None]]:
        """Every claim by name, in their order; None beside those that are yet to be measured."""
        return [(name, self._one(name)) for name in known()]

    def _one(self, name: str) -> Told | None:
        claim = known()[name]
        found = self._before(name) if claim.about_model else self._trained(claim)
        return None if found is None else Told(name, claim, *found, self.study.model.name)

    def _trained(self, claim: Claim) -> tuple[Card, float] | None:
        """What training gave, as it came with this version; None where that was left out of it."""
        try:
            return claim.work(self.study), 0.0
        except OSError:
            return None

    def _before(self, name: str) -> tuple[Card, float] | None:
        return None if self._kept is None else self._kept.read(name)

    @cached_property
    def _kept(self) -> Kept | None:
        """None where nothing can have been measured: the model reads no text, or our texts are not installed."""
        try:
            return kept_for(self.study)
        except HeadwiseError:
            return None
