"""A head that speaks louder or softer: its part of W_O times a factor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.amounts import finite
from headwise.interventions.edit import AtRun, Claim, Edit, Kind, Rewritten, shared
from headwise.interventions.head_parameters import Anatomy
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Scale(Edit):
    """Scale what one head adds.

        W_O[h] ← factor · W_O[h]

    Args:
        layer: counted within the part.
        head: counted from 0.
        factor: any number; negative turns what the head says around.
        part: such as "decoder.cross", where a model has several.

    Raises:
        ArgumentError: the factor is no finite number.

    Example:
        >>> Scale(2, 1, 1.5).factor
        1.5
    """

    layer: int
    head: int
    factor: float
    part: str | None = None
    kind: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        finite("factor", self.factor)

    def claims(self, anatomy: Anatomy) -> list[Claim]:
        return [(anatomy.place(self.layer, self.head, self.part).index, self.head, "words")]

    def not_in_weights(self, anatomy: Anatomy) -> str | None:
        place = anatomy.place(self.layer, self.head, self.part)
        return shared(anatomy, place, [anatomy.output(place, self.head)])

    def not_at_run(self, anatomy: Anatomy) -> str | None:
        return None

    def rewritten(self, anatomy: Anatomy) -> Iterator[Rewritten]:
        block = anatomy.output(anatomy.place(self.layer, self.head, self.part), self.head)
        yield Rewritten(block.parameter, lambda whole: block.put(whole, block.of(whole) * self.factor))

    def at_run(self, anatomy: Anatomy) -> AtRun:
        place = anatomy.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), self.factor)
        return AtRun(words={place.index: scale_heads(factors)})


ENTRY = Kind(Scale, "what the head adds is multiplied", "LAYER.HEAD=FACTOR")
