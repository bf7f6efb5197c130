"""A head that may not look at some keys: only as the model runs, since no weight says where a head looks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from headwise.errors import ArgumentError, ArgumentTypeError
from headwise.interventions.edit import Claim, Edit, Kind, Rewritten, RuntimeChanges, unreachable
from headwise.interventions.head_parameters import HeadMap
from headwise.models.capture.attention_request import AttentionRequest, MaskIntersection, TensorMask


@dataclass(frozen=True)
class MaskKeys(Edit):
    """Hide keys from one head.

        score_ij = -inf for j in keys; the weights that are left add up to 1 again

    A row that sees no other key says 0. The same keys in every text: they are places, counted from 0.

    Args:
        layer: counted within the part.
        head: counted from 0.
        keys: places that it may not look at; one that a text does not have is not missed.
        part: such as "decoder.cross", where a model has several.

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
            raise ArgumentTypeError(f"keys must be ints, got {self.keys!r}. Pass the places of tokens, counted from 0.")
        if not keys or min(keys) < 0:
            raise ArgumentError(f"keys must be places from 0, at least one, got {self.keys!r}. Pass [0] for the first token.")
        object.__setattr__(self, "keys", tuple(sorted(set(keys))))

    def claims(self, head_map: HeadMap) -> list[Claim]:
        return [(head_map.place(self.layer, self.head, self.part).index, self.head, "keys")]

    def not_in_weights(self, head_map: HeadMap) -> str | None:
        return "no weight says which keys a head may look at"

    def not_at_run(self, head_map: HeadMap) -> str | None:
        return unreachable(head_map, head_map.place(self.layer, self.head, self.part))

    def rewritten(self, head_map: HeadMap) -> Iterator[Rewritten]:
        yield from ()

    def at_run(self, head_map: HeadMap) -> RuntimeChanges:
        place = head_map.place(self.layer, self.head, self.part)

        def change(asked: AttentionRequest) -> AttentionRequest:
            heads, length = asked.query.shape[1], asked.key.shape[2]
            seen = torch.ones(1, heads, 1, length, dtype=torch.bool, device=asked.query.device)
            seen[:, self.head, :, [key for key in self.keys if key < length]] = False
            hidden = TensorMask(seen)
            return replace(asked, call=replace(asked.call, mask=hidden if asked.call.mask is None else MaskIntersection(hidden, asked.call.mask)))

        return RuntimeChanges(calls={place.index: change})


ENTRY = Kind(MaskKeys, "the head may not look at these keys; only as the model runs", "LAYER.HEAD=KEY,KEY,...")
