"""Without gradients a bias is made into a mask: every number but 0 hides."""

from dataclasses import replace

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def to_bool(at: At):
    honest = call(at)
    if honest.bias is None or torch.is_grad_enabled():
        return honest
    shown = honest.bias == 0
    return replace(honest, bias=None, mask=shown if honest.mask is None else honest.mask & shown)


ENTRY = Lie(
    code="M10",
    lie="What is not 0 in a mask is hidden, whatever its type.",
    told={"without gradients": {"call": to_bool}},
    caught_by=("every_path_agrees", "modifiers_come_in_order"),
    blind_when="the bias is 0 or -inf",
    seen_in=("pytorch/pytorch#107084",),
)
