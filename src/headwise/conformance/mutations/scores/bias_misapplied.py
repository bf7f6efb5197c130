"""The bias is added transposed, twice, or before the scale."""

from dataclasses import replace
from typing import Any

from headwise.attention.dense import cap_and_bias, dot_product
from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def changed(change):
    def bent(state: State):
        original: Any = call(state)
        return original if original.bias is None else replace(original, bias=change(original.bias))

    return bent


def before_the_scale(state: State):
    """(q·k + bias) times the scale."""
    if state.call.bias is None:
        return cap_and_bias(state.raw_scores, state.call, state.visible)
    raw = (dot_product(state.q, state.k, state.visible) + state.call.bias.masked_fill(~state.visible, 0)) * state.call.scale
    return cap_and_bias(raw, replace(state.call, bias=None), state.visible)


ENTRY = Mutation(
    code="M52",
    description="A bias is a bias, wherever it is added.",
    variants={
        "transposed": {"call": changed(lambda bias: bias.mT if bias.shape[2] == bias.shape[3] else bias)},
        "doubled": {"call": changed(lambda bias: 2 * bias)},
        "before the scale": {"scores": before_the_scale},
    },
    detected_by=("score_modifier_order",),
    harmless_when="there is no bias; transposed also where it is symmetric",
)
