"""Removal of a head: its rows of W_Q, W_K and W_V and its block of W_O are taken out, and the matrices shrink."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange
from headwise.interventions.head_parameters import HeadMap
from headwise.models.hooks.z_hooks import scale_heads


@dataclass(frozen=True)
class Prune(Edit):
    """Remove one head.

        W_Q, W_K, W_V lose the head's rows, W_O its columns; the numbers of all other heads stay

    The outputs are those of the model with the head ablated; the model is smaller. Heads that share a key head must be pruned together.
    A configuration has one number of heads for all layers, so the same number must be pruned in each, and the architecture must allow a
    head width (`head_dim`) that does not depend on the number of heads. Otherwise pruning is refused: `Ablate` has the same effect
    without shrinking.

    Args:
        layer: counted within the part.
        head: counted from 0 in the original model; heads after it move up.
        part: such as "decoder.cross", for a model that has several.

    Example:
        >>> Prune(4, 2)
        Prune(layer=4, head=2, part=None)
    """

    layer: int
    head: int
    part: str | None = None
    kind: ClassVar[str] = "prune"

    def targets(self, head_map: HeadMap) -> list[Target]:
        index = head_map.place(self.layer, self.head, self.part).index
        return [(index, self.head, what) for what in ("z", "query", "key", "value", "mask", "tied")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        return None  # `plan_pruning` decides for all pruned heads together

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return None

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        yield from ()  # likewise

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)
        factors = torch.ones(place.heads).index_fill(0, torch.tensor([self.head]), 0.0)
        return RuntimeChanges(z={place.index: scale_heads(factors)})


ENTRY = EditKind(Prune, "remove the head and shrink the matrices", "LAYER.HEAD")
