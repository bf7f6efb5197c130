"""What should be added is taken away."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def negated(at: At):
    honest = call(at)
    hides = honest.bias == float("-inf") if honest.bias is not None else None
    return honest if honest.bias is None else replace(honest, bias=(-honest.bias).masked_fill(hides, float("-inf")))


ENTRY = Lie(
    code="",
    lie="Distance is a penalty.",
    told={"minus the bias": {"call": negated}},
    caught_by=("modifiers_come_in_order", "golden_numbers"),
    blind_when="the bias is 0 or -inf",
)
