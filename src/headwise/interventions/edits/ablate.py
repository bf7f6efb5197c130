"""Zero ablation of a head: its block of W_O becomes 0."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange, sharing_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Ablate(Edit):
    """Ablate one head: set its write to zero.

        W_O[h] = 0

    The head adds nothing to any token. W_O's bias belongs to no head and stays, and so do the other heads' patterns.

    Args:
        layer: counted within the part.
        head: counted from 0.
        part: such as "decoder.cross", for a model that has several.

    Example:
        >>> Ablate(3, 5)
        Ablate(layer=3, head=5, part=None)
    """

    layer: int
    head: int
    part: str | None = None
    kind: ClassVar[str] = "ablate"

    def targets(self, head_map: HeadMap) -> list[Target]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "z")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        return sharing_refusal(head_map, place, [head_map.w_o(place, self.head)])

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return None

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        block = head_map.w_o(head_map.place(self.layer, self.head, self.part), self.head)
        yield WeightChange(block.parameter, lambda whole: block.put(whole, torch.zeros_like(block.of(whole))))

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 0.0)
        return RuntimeChanges(z={place.index: scale_heads(factors)})


ENTRY = EditKind(Ablate, "set the head's output to zero", "LAYER.HEAD")
