"""Minus infinity is written first and scaled then: times 0 it is NaN, times -1 it is the highest score of all."""

from dataclasses import replace

import torch

from headwise.attention.dense import cap_and_bias, dot_product
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unguarded_softmax, visible_under


def hidden_first(of_the_triangle_only: bool):
    def write(state: State):
        first = state.visible if not of_the_triangle_only else visible_under(state, replace(state.call, mask=None, bias=None, window=None))
        raw = dot_product(state.q, state.k, state.visible).masked_fill(~first, -torch.inf) * state.call.scale
        return cap_and_bias(raw, state.call, torch.ones_like(state.visible)).masked_fill(first & ~state.visible, -torch.inf)

    return write


ENTRY = Mutation(
    code="M30",
    description="Minus infinity stays what it is.",
    variants={
        "all that hides": {"scores": hidden_first(False), "weights": unguarded_softmax, "z": unguarded_mix},
        "the triangle": {"scores": hidden_first(True), "weights": unguarded_softmax, "z": unguarded_mix},
    },
    detected_by=("explicit_scale", "causality"),
    harmless_when="the scale is positive",
    reported_in=("NVIDIA/cudnn-frontend#804",),
)
