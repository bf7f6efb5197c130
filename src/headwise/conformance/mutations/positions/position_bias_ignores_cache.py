"""The bias of positions takes i - j for the distance, though query i stands behind everything in the cache."""

import torch

from headwise.attention.call import accumulation_dtype
from headwise.conformance.mutations.mutable_layer import State, position_bias
from headwise.conformance.mutations.mutation import Mutation


def without_past(state: State):
    if state.problem.context is not None:
        return position_bias(state)
    return state.position.bias(torch.zeros(len(state.query_tokens), dtype=torch.int64), state.q.shape[1], accumulation_dtype(state.q.dtype))


ENTRY = Mutation(
    code="M51",
    description="Query i is token i.",
    variants={"i - j": {"position_bias": without_past}},
    detected_by=("causal_alignment", "kv_cache_equivalence"),
    level="layer",
    harmless_when="there is no cache, or no bias of positions",
    reported_in=("lucidrains/x-transformers#103",),
)
