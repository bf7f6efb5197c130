"""A kernel that is told "causal" does not look at the mask that came with it."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def alone(state: State):
    original = call(state)
    return replace(original, mask=None) if original.causal else original


ENTRY = Mutation(
    code="M20",
    description="Causal says it all.",
    variants={"causal without mask": {"call": alone}},
    detected_by=("masks_combine", "hidden_keys_are_ignored"),
    harmless_when="there is no mask, or no flag",
    reported_in=("AI-Hypercomputer/maxtext#878",),
)
