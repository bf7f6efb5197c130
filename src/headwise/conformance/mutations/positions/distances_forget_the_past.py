"""The bias of positions takes i - j for the distance, though query i stands behind everything in the cache."""

import torch

from headwise.attention.call import accumulation_dtype
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, lean


def without_past(at: At):
    if at.problem.context is not None:
        return lean(at)
    return at.position.bias(torch.zeros(len(at.asks), dtype=torch.int64), at.q.shape[1], accumulation_dtype(at.q.dtype))


ENTRY = Lie(
    code="M51",
    lie="Query i is token i.",
    told={"i - j": {"lean": without_past}},
    caught_by=("corner_is_as_declared", "cache_changes_nothing"),
    level="layer",
    blind_when="there is no cache, or no bias of positions",
    seen_in=("lucidrains/x-transformers#103",),
)
