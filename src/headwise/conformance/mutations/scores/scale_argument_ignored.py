"""Whatever scale is asked for, it is one over the root of D."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def usual(state: State):
    width = state.problem.query.shape[3]
    return replace(call(state), scale=width**-0.5) if width else call(state)


ENTRY = Mutation(
    code="M28",
    description="There is one scale.",
    variants={"1/√D": {"call": usual}},
    detected_by=("default_scale", "explicit_scale"),
    harmless_when="no scale is given",
    reported_in=("TransformerLensOrg/TransformerLens#694",),
)
