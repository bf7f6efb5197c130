"""Without gradients a bias is made into a mask: every number but 0 hides."""

from dataclasses import replace
from typing import Any

import torch

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def to_bool(state: State):
    original: Any = call(state)
    if original.bias is None or torch.is_grad_enabled():
        return original
    shown = original.bias == 0
    return replace(original, bias=None, mask=shown if original.mask is None else original.mask & shown)


ENTRY = Mutation(
    code="M10",
    description="What is not 0 in a mask is hidden, whatever its type.",
    variants={"without gradients": {"call": to_bool}},
    detected_by=("code_paths_agree", "score_modifier_order"),
    harmless_when="the bias is 0 or -inf",
    reported_in=("pytorch/pytorch#107084",),
)
