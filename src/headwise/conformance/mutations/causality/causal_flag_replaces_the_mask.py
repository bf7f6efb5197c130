"""A kernel that is told "causal" does not look at the mask that came with it."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def alone(at: At):
    honest = call(at)
    return replace(honest, mask=None) if honest.causal else honest


ENTRY = Lie(
    code="M20",
    lie="Causal says it all.",
    told={"causal without mask": {"call": alone}},
    caught_by=("masks_combine", "hidden_keys_do_not_matter"),
    blind_when="there is no mask, or no flag",
    seen_in=("AI-Hypercomputer/maxtext#878",),
)
