"""The mask of the first sample is used for the whole batch."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def first(state: State):
    original: Any = call(state)
    return original if original.mask is None else replace(original, mask=original.mask[:1])


ENTRY = Mutation(
    code="M16",
    description="One mask does for all.",
    variants={"of sample 0": {"call": first}},
    detected_by=("masks_combine", "batch_independence"),
    harmless_when="there is one sample, or all have the same mask",
    reported_in=("tenstorrent/tt-metal#39910",),
)
