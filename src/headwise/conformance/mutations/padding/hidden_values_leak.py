"""Weights of 0 are multiplied with whatever the hidden value holds: 0 · NaN is NaN."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.plain_steps import plain_mix

ENTRY = Lie(
    code="M62",
    lie="0 times anything is 0.",
    told={"weights times values": {"z": plain_mix}},
    caught_by=("poison_stays_out",),
    blind_when="hidden values are finite, or leaking is declared",
    seen_in=("pytorch/pytorch#101967",),
)
