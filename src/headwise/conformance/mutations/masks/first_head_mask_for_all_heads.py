"""The mask of head 0 is used for all heads."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def first(state: State):
    original: Any = call(state)
    return original if original.mask is None else replace(original, mask=original.mask[:, :1])


ENTRY = Mutation(
    code="M16",
    description="Heads have one mask between them.",
    variants={"of head 0": {"call": first}},
    detected_by=("masks_combine", "hidden_keys_are_ignored", "head_matches_in_isolation"),
    harmless_when="the mask is the same for all heads",
)
