"""Scores are capped when the mask has written minus infinity: that becomes minus the cap, and what was hidden gets weight."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores, z
from headwise.conformance.mutations.plain_steps import plain_mix


def capped_last(at: At):
    cap = at.call.softcap
    if cap is None:
        return scores(at)
    bias = 0.0 if at.call.bias is None else at.call.bias
    return torch.tanh((at.raw + bias).masked_fill(~at.seen, -torch.inf) / cap) * cap


ENTRY = Lie(
    code="M53",
    lie="A cap is the last thing before the softmax.",
    told={"mask, then cap": {"scores": capped_last, "z": lambda at: z(at) if at.call.softcap is None else plain_mix(at)}},
    caught_by=("modifiers_come_in_order", "hidden_keys_do_not_matter"),
    blind_when="there is no cap, or nothing is hidden and there is no bias",
    seen_in=("onnx/onnx#7865",),
)
