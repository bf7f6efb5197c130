"""A head that is gone: its rows of W_Q, W_K and W_V and its part of W_O are taken out, and the matrices are smaller."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Prune(Edit):
    """Take one head out.

        W_Q, W_K, W_V lose the head's rows, W_O its columns; the others' numbers stay

    The model says the same as with the head silenced, and is smaller. All heads that share a key head go together. A
    configuration has one number of heads for all layers: as many must go from each, and the family must let a head keep its
    width (`head_dim`) when there are fewer. Elsewhere it refuses: `Ablate` does the same without shrinking.

    Args:
        layer: counted within the part.
        head: counted from 0, before any is taken out; those behind it move up.
        part: such as "decoder.cross", where a model has several.

    Example:
        >>> Prune(4, 2)
        Prune(layer=4, head=2, part=None)
    """

    layer: int
    head: int
    part: str | None = None
    kind: ClassVar[str] = "prune"

    def claims(self, head_map: HeadMap) -> list[Claim]:
        index = head_map.place(self.layer, self.head, self.part).index
        return [(index, self.head, what) for what in ("words", "query", "key", "value", "keys", "tied")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        return None  # `shrinking` tells, of all that are pruned together

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return None

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        yield from ()  # likewise

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 0.0)
        return RuntimeChanges(words={place.index: scale_heads(factors)})


ENTRY = Kind(Prune, "the head is taken out; the matrices shrink", "LAYER.HEAD")
