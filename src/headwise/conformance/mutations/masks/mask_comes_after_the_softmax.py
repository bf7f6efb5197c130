"""The softmax has shared out the row before the mask is looked at; or the fill has the wrong sign."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, weights
from headwise.conformance.mutations.plain_steps import plain_mix, unhidden


def hidden_afterwards(at: At):
    return weights(at) * at.seen


def plus_infinity(at: At):
    return unhidden(at).masked_fill(~at.seen, torch.inf)


ENTRY = Lie(
    code="M06",
    lie="It is enough to set hidden weights to 0.",
    told={"weights times mask": {"scores": unhidden, "weights": hidden_afterwards}, "filled with +inf": {"scores": plus_infinity, "z": plain_mix}},
    caught_by=("rows_sum_to_one", "hidden_keys_do_not_matter"),
    blind_when="nothing is hidden",
    seen_in=("lucidrains/memory-compressed-attention#2",),
)
