"""Queries and keys are not looked at: every visible key has the same weight."""

import torch

from headwise.attention.call import accumulation_dtype
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def flat(state: State):
    return torch.zeros(state.problem.shape, dtype=accumulation_dtype(state.q.dtype))


ENTRY = Mutation(
    code="",
    description="An average is attention enough.",
    variants={"plain average": {"raw_scores": flat}},
    detected_by=("heads_do_not_interact", "default_scale", "error_within_rounding", "golden_values"),
    harmless_when="a row sees one key",
)
