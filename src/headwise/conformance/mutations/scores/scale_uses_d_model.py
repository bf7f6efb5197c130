"""Scores are divided by the root of the model's width, not of a head's."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def of_all_heads(state: State):
    _, heads, _, width = state.problem.query.shape
    return replace(call(state), scale=(heads * width) ** -0.5) if state.problem.scale is None and heads else call(state)


ENTRY = Mutation(
    code="M26",
    description="d is the width of the model.",
    variants={"1/√(H·D)": {"call": of_all_heads}},
    detected_by=("default_scale",),
    harmless_when="there is one head",
    reported_in=("lucidrains/vit-pytorch#65",),
)
