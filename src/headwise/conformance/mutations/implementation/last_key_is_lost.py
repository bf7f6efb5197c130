"""Where one key head is repeated without a copy, and there is one key more than 32 hold, the last key is not read."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, seen


def without_last(at: At):
    key = at.problem.key
    lost = key.shape[2] % 32 == 1 and key.shape[2] > 1 and key.shape[1] > 1 and key.stride(1) == 0
    return seen(at) & (torch.arange(key.shape[2]) < key.shape[2] - 1) if lost else seen(at)


ENTRY = Lie(
    code="M65",
    lie="Lengths are multiples of 32.",
    told={"S = 33": {"seen": without_last}},
    caught_by=("layout_does_not_matter", "neighbours_share_a_key_head"),
    blind_when="heads are copied, or S mod 32 is not 1",
    seen_in=("pytorch/pytorch#191937",),
)
