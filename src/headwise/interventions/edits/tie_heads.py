"""A layer whose heads all have the projections of head 0."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from headwise.axes import Tensor
from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange, hook_refusal, sharing_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.parameters.head_blocks import HeadBlock

SIDES = ("query", "key", "value")


@dataclass(frozen=True)
class TieHeads(Edit):
    """Give every head of a layer the query, key and value projections of head 0.

        W_Q[h], W_K[h], W_V[h] ← W_Q[0], W_K[0], W_V[0]

    All heads then have the same pattern and the same z, which measures what independent heads are worth, layer by layer. It is the
    mutation `tie_heads` of `headwise attack`, applied to a real model. W_O stays: each head still writes through its own block.

    Args:
        layer: counted within the part.
        part: such as "decoder.cross", for a model that has several.

    Example:
        >>> TieHeads(1)
        TieHeads(layer=1, part=None)
    """

    layer: int
    part: str | None = None
    kind: ClassVar[str] = "tie_heads"

    def targets(self, head_map: HeadMap) -> list[Target]:
        place = head_map.place(self.layer, None, self.part)
        return [(place.index, head, side) for head in range(1, place.heads) for side in SIDES] + [(place.index, 0, "tied")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, None, self.part)
        for name in SIDES:
            projected = getattr(head_map.projections[place.index], name)
            if projected.refusal is not None:
                return f"the rows of each head's {name} cannot be separated in {place.module}: {projected.refusal}"
        pairs = list(self._pairs(head_map))
        if any(first.parameter != other.parameter or len(first.indices) != len(other.indices) for first, other in pairs):
            return f"the heads of {place.module} have parameters of their own"
        return sharing_refusal(head_map, place, [block for pair in pairs for block in pair])

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return hook_refusal(head_map, head_map.place(self.layer, None, self.part))

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        for first, other in self._pairs(head_map):
            yield WeightChange(other.parameter, lambda whole, first=first, other=other: other.put(whole, first.of(whole)))

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        def change(request: AttentionRequest) -> AttentionRequest:
            return replace(request, query=_first(request.query), key=_first(request.key), value=_first(request.value))

        return RuntimeChanges(calls={head_map.place(self.layer, None, self.part).index: change})

    def untouched_heads(self, head_map: HeadMap) -> dict[int, set[int]]:
        return {head_map.place(self.layer, None, self.part).index: {0}}

    def _pairs(self, head_map: HeadMap) -> Iterator[tuple[HeadBlock, HeadBlock]]:
        """The rows of head 0, each with the rows that take their values."""
        place = head_map.place(self.layer, None, self.part)
        for name in SIDES:
            first, *others = head_map.projected(place, name).heads
            for other in others:
                yield from zip(first.blocks, other.blocks, strict=False)


def _first(x: Tensor) -> Tensor:
    return x[:, :1].expand_as(x).contiguous()


ENTRY = EditKind(TieHeads, "give all heads of the layer the projections of head 0", "LAYER")
