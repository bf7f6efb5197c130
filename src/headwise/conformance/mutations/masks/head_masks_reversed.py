"""The last head gets the first head's mask."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def reversed_order(state: State):
    original: Any = call(state)
    return original if original.mask is None else replace(original, mask=original.mask.flip(1))


ENTRY = Mutation(
    code="",
    description="Heads may be counted from either end.",
    variants={"flipped": {"call": reversed_order}},
    detected_by=("masks_combine", "hidden_keys_are_ignored", "head_matches_in_isolation"),
    harmless_when="the mask is the same for all heads",
)
