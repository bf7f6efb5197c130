"""The gradient that comes back is read as if it lay in memory in order; a merge of heads hands back one that does not."""

import torch

from headwise.conformance.mutations.implementation.strides_are_ignored import straight
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


class AsItLies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, upstream):
        return straight(upstream)


def misread(at: At):
    return AsItLies.apply(output(at))


ENTRY = Lie(
    code="M69",
    lie="Gradients are contiguous.",
    told={"upstream": {"output": misread}, "without weights": {"output": lambda at: output(at) if at.how.weights else misread(at)}},
    caught_by=("gradients_are_slopes", "layout_does_not_matter"),
    blind_when="the upstream gradient is contiguous",
    seen_in=("Dao-AILab/flash-attention#355", "pytorch/pytorch#158212"),
)
