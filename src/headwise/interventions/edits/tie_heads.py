"""A layer whose heads are all the same head: each reads head 0's slice."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from headwise.axes import Tensor
from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges, shared, unreachable
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest
from headwise.models.parameters.head_blocks import HeadBlock

SIDES = ("query", "key", "value")


@dataclass(frozen=True)
class TieHeads(Edit):
    """Let every head of a layer read what head 0 reads.

        W_Q[h], W_K[h], W_V[h] ← W_Q[0], W_K[0], W_V[0]

    All heads then have one pattern and say the same: what "heads look at different things" is worth, layer by layer. It is the
    attack `tie_heads` of `headwise attack`, on a real model. W_O stays: each still writes through its own part of it.

    Args:
        layer: counted within the part.
        part: such as "decoder.cross", where a model has several.

    Example:
        >>> TieHeads(1)
        TieHeads(layer=1, part=None)
    """

    layer: int
    part: str | None = None
    kind: ClassVar[str] = "tie_heads"

    def claims(self, head_map: HeadMap) -> list[Claim]:
        place = head_map.place(self.layer, None, self.part)
        return [(place.index, head, side) for head in range(1, place.heads) for side in SIDES] + [(place.index, 0, "tied")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        place = head_map.place(self.layer, None, self.part)
        for name in SIDES:
            side = getattr(head_map.projections[place.index], name)
            if side.refusal is not None:
                return f"the rows of each head's {name} cannot be told apart in {place.module}: {side.refusal}"
        pairs = list(self._pairs(head_map))
        if any(first.parameter != other.parameter or len(first.indices) != len(other.indices) for first, other in pairs):
            return f"the heads of {place.module} lie in parameters of their own"
        return shared(head_map, place, [block for pair in pairs for block in pair])

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return unreachable(head_map, head_map.place(self.layer, None, self.part))

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        for first, other in self._pairs(head_map):
            yield Rewritten(other.parameter, lambda whole, first=first, other=other: other.put(whole, first.of(whole)))

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        def change(asked: AttentionRequest) -> AttentionRequest:
            return replace(asked, query=_first(asked.query), key=_first(asked.key), value=_first(asked.value))

        return RuntimeChanges(calls={head_map.place(self.layer, None, self.part).index: change})

    def spared(self, head_map: HeadMap) -> dict[int, set[int]]:
        return {head_map.place(self.layer, None, self.part).index: {0}}

    def _pairs(self, head_map: HeadMap) -> Iterator[tuple[HeadBlock, HeadBlock]]:
        """Head 0's rows, and the rows that become like them."""
        place = head_map.place(self.layer, None, self.part)
        for name in SIDES:
            first, *others = head_map.side(place, name).heads
            for other in others:
                yield from zip(first.blocks, other.blocks, strict=False)


def _first(x: Tensor) -> Tensor:
    return x[:, :1].expand_as(x).contiguous()


ENTRY = Kind(TieHeads, "all heads of the layer read what head 0 reads", "LAYER")
