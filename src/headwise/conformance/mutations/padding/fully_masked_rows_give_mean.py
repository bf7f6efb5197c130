"""A large finite number stands for minus infinity, so that a row of nothing but those is a softmax of equals."""

import torch

from headwise.conformance.mutations.mutable_attention import State, scores
from headwise.conformance.mutations.mutation import Mutation


def smallest(state: State):
    return scores(state).masked_fill(~state.visible, torch.finfo(state.raw_scores.dtype).min)


def very_small(state: State):
    return scores(state).masked_fill(~state.visible, -1e30)


ENTRY = Mutation(
    code="M02",
    description="The smallest finite number hides as well as minus infinity.",
    variants={"the smallest number": {"scores": smallest}, "-1e30": {"scores": very_small}},
    detected_by=("fully_masked_rows", "mask_fill_value_invariance"),
    harmless_when="every row sees a key, or a sink",
    reported_in=("microsoft/onnxruntime#28958", "pytorch/pytorch#109517"),
)
