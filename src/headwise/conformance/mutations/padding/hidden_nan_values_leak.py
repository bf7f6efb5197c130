"""Weights of 0 are multiplied with whatever the hidden value holds: 0 · NaN is NaN."""

from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix

ENTRY = Mutation(
    code="M62",
    description="0 times anything is 0.",
    variants={"weights times values": {"z": unguarded_mix}},
    detected_by=("nan_in_hidden_positions_is_ignored",),
    harmless_when="hidden values are finite, or leaking is declared",
    reported_in=("pytorch/pytorch#101967",),
)
