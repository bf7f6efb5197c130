"""A published claim about attention heads, and the experiment that tests it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.card import Card

if TYPE_CHECKING:
    from headwise.experiments.study import Study


@dataclass(frozen=True)
class Claim:
    """A sentence about heads and how it is tested.

    Attributes:
        sentence: the claim, as it is usually worded.
        source: who made or tested it.
        address: where the source can be read.
        published: what the source found, with its numbers.
        definition: how the terms of the sentence are measured here.
        refuted_by: the observation that would refute it.
        rule: how the verdict follows from the numbers.
        run: the experiment.
        about_model: False if the experiment uses models trained for it, not the model under study.
    """

    sentence: str
    source: str
    address: str
    published: str
    definition: str
    refuted_by: str
    rule: str
    run: Callable[["Study"], Card]
    about_model: bool = True
