"""With a cache the causal mask is cut to T x T, where it needs a column for every key."""

import torch

from headwise.conformance.mutations.mutable_layer import State, options
from headwise.conformance.mutations.mutation import Mutation


def cut(state: State):
    original = options(state)
    if state.past is None or not original["causal"]:
        return original
    first = (torch.arange(state.cache.length) < state.query_tokens.shape[1])[None, None, None]
    return {**original, "mask": first if original["mask"] is None else original["mask"] & first}


ENTRY = Mutation(
    code="M55",
    description="A mask is square.",
    variants={"T x T": {"options": cut}},
    detected_by=("kv_cache_equivalence", "causal_alignment"),
    level="layer",
    harmless_when="there is no cache",
    reported_in=("rasbt/LLMs-from-scratch#697",),
)
