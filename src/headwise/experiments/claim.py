"""What a claim is: a sentence that people say about heads, and how it is put to the test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.card import Card

if TYPE_CHECKING:
    from headwise.experiments.study import Study


@dataclass(frozen=True)
class Claim:
    """A sentence about heads.

    Attributes:
        sentence: as it is said.
        source: who said or tested it.
        address: where that can be read.
        published: what the source found, with its numbers.
        definition: what the words of the sentence are taken to mean here, so that they can be measured.
        refuted_by: what would have to be seen for the sentence to be cut.
        rule: how the verdict follows from the numbers.
        work: the experiment.
        about_model: False where the experiment trains models of its own and the model at hand plays no part.
    """

    sentence: str
    source: str
    address: str
    published: str
    definition: str
    refuted_by: str
    rule: str
    work: Callable[["Study"], Card]
    about_model: bool = True
