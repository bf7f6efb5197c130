"""A head that speaks louder or softer: its part of W_O times a factor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.amounts import finite
from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges, shared
from headwise.interventions.head_parameters import HeadMap
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

    def claims(self, head_map: HeadMap) -> list[Claim]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "words")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        return shared(head_map, place, [head_map.output(place, self.head)])

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return None

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        block = head_map.output(head_map.place(self.layer, self.head, self.part), self.head)
        yield Rewritten(block.parameter, lambda whole: block.put(whole, block.of(whole) * self.factor))

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), self.factor)
        return RuntimeChanges(words={place.index: scale_heads(factors)})


ENTRY = Kind(Scale, "what the head adds is multiplied", "LAYER.HEAD=FACTOR")
