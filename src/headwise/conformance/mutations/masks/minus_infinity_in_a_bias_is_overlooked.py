"""Padding given as a bias of 0 and -inf has no effect, since only a bool mask is filled in."""

from dataclasses import replace

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def ignoring(at: At):
    honest = call(at)
    return honest if honest.bias is None else replace(honest, bias=torch.where(honest.bias == -torch.inf, 0.0, honest.bias))


ENTRY = Lie(
    code="M10",
    lie="A mask is bool.",
    told={"-inf is 0": {"call": ignoring}},
    caught_by=("masks_combine", "smallest_number_or_minus_infinity"),
    blind_when="the bias is finite",
    seen_in=("mlverse/torch#1205",),
)
