"""Half-precision inputs have half-precision scores, and those end at 65504."""

import torch

from headwise.conformance.mutations.mutable_attention import State, raw_scores
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unguarded_softmax


def in_half(state: State):
    original = raw_scores(state)
    return original.half().to(original.dtype) if state.q.dtype == torch.float16 else original


ENTRY = Mutation(
    code="M59",
    description="Scores fit where queries fit.",
    variants={"after the scale": {"raw_scores": in_half, "weights": unguarded_softmax, "z": unguarded_mix}},
    detected_by=("large_scores_are_stable", "error_within_rounding"),
    harmless_when="scaled scores stay below 65504, or the dtype is wider",
    reported_in=("pytorch/pytorch#60940",),
)
