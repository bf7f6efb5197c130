"""Keys hidden from a head: at run time only, because no weight says which positions a head may attend to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.interventions.edit import Edit, EditKind, RuntimeChanges, Target, WeightChange, hook_refusal
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest, MaskIntersection, TensorMask


@dataclass(frozen=True)
class MaskKeys(Edit):
    """Hide some keys from one head.

        score_ij = -inf for j in keys; the remaining weights add up to 1 again

    A query that can attend to no other key has z = 0. The same positions are hidden in every text of a batch: they count a text's own tokens, not
    padding before it, and stay the same whatever the cache has dropped.

    Args:
        layer: counted within the part.
        head: counted from 0.
        keys: the hidden positions, counted from 0; positions beyond the end of a text are ignored.
        part: such as "decoder.cross", for a model that has several.

    Raises:
        ArgumentError, ArgumentTypeError: keys are not ints from 0, or there are none.

    Example:
        >>> MaskKeys(2, 7, keys=[0]).keys
        (0,)
    """

    layer: int
    head: int
    keys: Sequence[int]
    part: str | None = None
    kind: ClassVar[str] = "mask_keys"

    def __post_init__(self) -> None:
        keys = [self.keys] if isinstance(self.keys, int) else list(self.keys)
        if any(isinstance(key, bool) or not isinstance(key, int) for key in keys):
            raise ArgumentTypeError(f"keys must be ints, got {self.keys!r}. Pass the positions of tokens, counted from 0.")
        if not keys or min(keys) < 0:
            raise ArgumentError(f"keys must be positions from 0, at least one, got {self.keys!r}. Pass [0] for the first token.")
        object.__setattr__(self, "keys", tuple(sorted(set(keys))))

    def targets(self, head_map: HeadMap) -> list[Target]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "mask")]

    def weights_refusal(self, head_map: HeadMap) -> str | None:
        return "no weight determines which keys a head may attend to"

    def runtime_refusal(self, head_map: HeadMap) -> str | None:
        return hook_refusal(head_map, head_map.place(self.layer, self.head, self.part))

    def weight_changes(self, head_map: HeadMap) -> Iterator[WeightChange]:
        yield from ()

    def runtime_changes(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)

        def change(request: AttentionRequest) -> AttentionRequest:
            heads, length = request.query.shape[1], request.key.shape[2]
            device, description = request.query.device, request.description
            positions = torch.arange(length, device=device)[None] if description is None else description.key_positions()[:, :length].to(device)
            visible = torch.ones(len(positions), heads, 1, length, dtype=torch.bool, device=device)
            visible[:, self.head, 0] = ~torch.isin(positions, torch.tensor(self.keys, device=device))
            mask, before = TensorMask(visible), request.call.mask
            return replace(request, call=replace(request.call, mask=mask if before is None else MaskIntersection(mask, before)))

        return RuntimeChanges(calls={place.index: change})


ENTRY = EditKind(MaskKeys, "hide these key positions from the head; at run time only", "LAYER.HEAD=KEY,KEY,...")
