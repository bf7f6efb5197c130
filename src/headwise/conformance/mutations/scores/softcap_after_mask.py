"""Scores are capped when the mask has written minus infinity: that becomes minus the cap, and what was hidden gets weight."""

import torch

from headwise.conformance.mutations.mutable_attention import State, scores, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix


def capped_last(state: State):
    cap = state.call.softcap
    if cap is None:
        return scores(state)
    bias = 0.0 if state.call.bias is None else state.call.bias
    return torch.tanh((state.raw_scores + bias).masked_fill(~state.visible, -torch.inf) / cap) * cap


ENTRY = Mutation(
    code="M53",
    description="A cap is the last thing before the softmax.",
    variants={"mask, then cap": {"scores": capped_last, "z": lambda state: z(state) if state.call.softcap is None else unguarded_mix(state)}},
    detected_by=("score_modifier_order", "hidden_keys_are_ignored"),
    harmless_when="there is no cap, or nothing is hidden and there is no bias",
    reported_in=("onnx/onnx#7865",),
)
