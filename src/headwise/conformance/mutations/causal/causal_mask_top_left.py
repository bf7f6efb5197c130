"""With a past, the causal triangle begins at the first key: one new query sees key 0 and no other."""

from dataclasses import replace

import torch

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def at_the_start(state: State):
    original = call(state)
    usual = state.problem.causal and state.problem.query_offset is None
    return replace(original, offset=torch.zeros_like(original.offset)) if usual else original


ENTRY = Mutation(
    code="M17",
    description="The first query stands at the first key.",
    variants={"top-left": {"call": at_the_start}},
    detected_by=("causal_alignment", "kv_cache_equivalence"),
    harmless_when="T = S",
    reported_in=("pytorch/pytorch#144858", "pytorch/pytorch#108108", "google/flax#5591", "Dao-AILab/flash-attention#282"),
)
