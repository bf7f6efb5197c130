"""Where one key head is repeated without a copy, and there is one key more than 32 hold, the last key is not read."""

import torch

from headwise.conformance.mutations.mutable_attention import State, visible
from headwise.conformance.mutations.mutation import Mutation


def without_last(state: State):
    key = state.problem.key
    lost = key.shape[2] % 32 == 1 and key.shape[2] > 1 and key.shape[1] > 1 and key.stride(1) == 0
    return visible(state) & (torch.arange(key.shape[2]) < key.shape[2] - 1) if lost else visible(state)


ENTRY = Mutation(
    code="M65",
    description="Lengths are multiples of 32.",
    variants={"S = 33": {"visible": without_last}},
    detected_by=("memory_layout_invariance", "grouped_query_head_mapping"),
    harmless_when="heads are copied, or S mod 32 is not 1",
    reported_in=("pytorch/pytorch#191937",),
)
