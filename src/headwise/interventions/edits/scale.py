"""Scaling of a head's write: its block of W_O times a factor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange, check_finite, sharing_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Scale(Edit):
    """Multiply one head's write by a factor.

        W_O[h] ← factor · W_O[h]

    Args:
        layer: counted within the part.
        head: counted from 0.
        factor: any finite number; a negative one reverses the write.
        part: such as "decoder.cross", for a model that has several.

    Raises:
        ArgumentError: the factor is not finite.

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
        check_finite("factor", self.factor)

    def targets(self, head_map: HeadMap) -> list[Target]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "z")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        return sharing_refusal(head_map, place, [head_map.w_o(place, self.head)])

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return None

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        block = head_map.w_o(head_map.place(self.layer, self.head, self.part), self.head)
        yield WeightChange(block.parameter, lambda whole: block.put(whole, block.of(whole) * self.factor))

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), self.factor)
        return RuntimeChanges(z={place.index: scale_heads(factors)})


ENTRY = EditKind(Scale, "multiply the head's write by a factor", "LAYER.HEAD=FACTOR")
