"""The gradient that comes back is read as if it lay in memory in order; a merge of heads hands back one that does not."""

import torch

from headwise.conformance.mutations.implementation.strides_ignored import straight
from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


class AsItLies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, upstream):
        return straight(upstream)


def misread(state: State):
    return AsItLies.apply(output(state))


ENTRY = Mutation(
    code="M69",
    description="Gradients are contiguous.",
    variants={"upstream": {"output": misread}, "without weights": {"output": lambda state: output(state) if state.mode.weights else misread(state)}},
    detected_by=("gradients_are_correct", "memory_layout_invariance"),
    harmless_when="the upstream gradient is contiguous",
    reported_in=("Dao-AILab/flash-attention#355", "pytorch/pytorch#158212"),
)
