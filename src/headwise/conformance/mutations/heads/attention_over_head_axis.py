"""Axes are read as [B, T, H, D] where they are [B, H, T, D]: each token's heads look at one another."""

import torch

from headwise.conformance.mutations.mutable_attention import State, z
from headwise.conformance.mutations.mutation import Mutation


def across(state: State):
    queries, keys = state.q.shape[2], state.k.shape[2]
    if queries != keys or not bool(state.visible.all()):
        return z(state)
    q, k, v = (x.transpose(1, 2) for x in (state.q, state.k, state.v))
    return (torch.softmax(q @ k.mT * state.call.scale, -1) @ v).transpose(1, 2)


ENTRY = Mutation(
    code="M33",
    description="Heads are the third axis.",
    variants={"BTHD for BHTD": {"z": across}},
    detected_by=("heads_do_not_interact", "key_permutation_invariance"),
    harmless_when="H = T and all heads are alike; here also where T ≠ S or something is hidden",
    reported_in=("facebookresearch/xformers#677",),
)
