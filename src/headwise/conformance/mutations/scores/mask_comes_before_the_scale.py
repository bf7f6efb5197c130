"""Minus infinity is written first and scaled then: times 0 it is NaN, times -1 it is the highest score of all."""

from dataclasses import replace

import torch

from headwise.attention.dense import cap_and_bias, dot_product
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.mutations.plain_steps import plain_mix, plain_softmax, seen_under


def hidden_first(of_the_triangle_only: bool):
    def write(at: At):
        first = at.seen if not of_the_triangle_only else seen_under(at, replace(at.call, mask=None, bias=None, window=None))
        raw = dot_product(at.q, at.k, at.seen).masked_fill(~first, -torch.inf) * at.call.scale
        return cap_and_bias(raw, at.call, torch.ones_like(at.seen)).masked_fill(first & ~at.seen, -torch.inf)

    return write


ENTRY = Lie(
    code="M30",
    lie="Minus infinity stays what it is.",
    told={
        "all that hides": {"scores": hidden_first(False), "weights": plain_softmax, "z": plain_mix},
        "the triangle": {"scores": hidden_first(True), "weights": plain_softmax, "z": plain_mix},
    },
    caught_by=("any_real_scale", "the_future_does_not_matter"),
    blind_when="the scale is positive",
    seen_in=("NVIDIA/cudnn-frontend#804",),
)
