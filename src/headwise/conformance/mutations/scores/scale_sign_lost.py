"""The root of the scale goes to queries and keys, so that its sign is lost, or NaN."""

import torch

from headwise.attention.dense import dot_product
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def without_sign(state: State):
    return dot_product(state.q, state.k, state.visible) * abs(state.call.scale)


def rooted(state: State):
    root = torch.tensor(state.call.scale, dtype=torch.float64).sqrt()
    return dot_product((state.q * root).to(state.q.dtype), (state.k * root).to(state.k.dtype), state.visible)


ENTRY = Mutation(
    code="M29",
    description="Scales are positive.",
    variants={"|scale|": {"raw_scores": without_sign}, "√scale on q and k": {"raw_scores": rooted}},
    detected_by=("explicit_scale",),
    harmless_when="the scale is positive",
    reported_in=("pytorch/pytorch#105202",),
)
