"""A large finite number stands for minus infinity, so that a row of nothing but those is a softmax of equals."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores


def smallest(at: At):
    return scores(at).masked_fill(~at.seen, torch.finfo(at.raw.dtype).min)


def very_small(at: At):
    return scores(at).masked_fill(~at.seen, -1e30)


ENTRY = Lie(
    code="M02",
    lie="The smallest finite number hides as well as minus infinity.",
    told={"the smallest number": {"scores": smallest}, "-1e30": {"scores": very_small}},
    caught_by=("dead_rows_are_as_declared", "smallest_number_or_minus_infinity"),
    blind_when="every row sees a key, or a sink",
    seen_in=("microsoft/onnxruntime#28958", "pytorch/pytorch#109517"),
)
