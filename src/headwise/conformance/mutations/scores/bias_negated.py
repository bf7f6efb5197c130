"""What should be added is taken away."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def negated(state: State):
    original: Any = call(state)
    hides = original.bias == float("-inf") if original.bias is not None else None
    return original if original.bias is None else replace(original, bias=(-original.bias).masked_fill(hides, float("-inf")))


ENTRY = Mutation(
    code="",
    description="Distance is a penalty.",
    variants={"minus the bias": {"call": negated}},
    detected_by=("score_modifier_order", "golden_values"),
    harmless_when="the bias is 0 or -inf",
)
