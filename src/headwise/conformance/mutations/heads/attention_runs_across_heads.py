"""Axes are read as [B, T, H, D] where they are [B, H, T, D]: each token's heads look at one another."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, z


def across(at: At):
    queries, keys = at.q.shape[2], at.k.shape[2]
    if queries != keys or not bool(at.seen.all()):
        return z(at)
    q, k, v = (x.transpose(1, 2) for x in (at.q, at.k, at.v))
    return (torch.softmax(q @ k.mT * at.call.scale, -1) @ v).transpose(1, 2)


ENTRY = Lie(
    code="M33",
    lie="Heads are the third axis.",
    told={"BTHD for BHTD": {"z": across}},
    caught_by=("heads_stand_alone", "order_of_keys_does_not_matter"),
    blind_when="H = T and all heads are alike; here also where T ≠ S or something is hidden",
    seen_in=("facebookresearch/xformers#677",),
)
