"""Padding given as a bias of 0 and -inf has no effect, since only a bool mask is filled in."""

from dataclasses import replace
from typing import Any

import torch

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def ignoring(state: State):
    original: Any = call(state)
    return original if original.bias is None else replace(original, bias=torch.where(original.bias == -torch.inf, 0.0, original.bias))


ENTRY = Mutation(
    code="M10",
    description="A mask is bool.",
    variants={"-inf is 0": {"call": ignoring}},
    detected_by=("masks_combine", "mask_fill_value_invariance"),
    harmless_when="the bias is finite",
    reported_in=("mlverse/torch#1205",),
)
