"""A head that says nothing: its part of W_O is 0."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges, shared
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Ablate(Edit):
    """Ablate one head: set its output to zero.

        W_O[h] = 0

    What it would have added is 0 for every token. W_O's bias belongs to no head and stays; the others' softmax does not notice.

    Args:
        layer: counted within the part.
        head: counted from 0.
        part: such as "decoder.cross", where a model has several.

    Example:
        >>> Ablate(3, 5)
        Ablate(layer=3, head=5, part=None)
    """

    layer: int
    head: int
    part: str | None = None
    kind: ClassVar[str] = "ablate"

    def claims(self, head_map: HeadMap) -> list[Claim]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "words")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, self.head, self.part)
        return shared(head_map, place, [head_map.output(place, self.head)])

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return None

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        block = head_map.output(head_map.place(self.layer, self.head, self.part), self.head)
        yield Rewritten(block.parameter, lambda whole: block.put(whole, torch.zeros_like(block.of(whole))))

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 0.0)
        return RuntimeChanges(words={place.index: scale_heads(factors)})


ENTRY = Kind(Ablate, "the head says nothing", "LAYER.HEAD")
