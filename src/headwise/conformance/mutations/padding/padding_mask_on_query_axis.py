"""Padding of the keys is laid along the axis of the queries; or along both."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def turned(both: bool):
    def lay(state: State):
        original: Any = call(state)
        if original.mask is None or original.mask.shape[2] > 1 or state.problem.shape[2] != original.mask.shape[3]:
            return original
        return replace(original, mask=original.mask & original.mask.mT if both else original.mask.mT)

    return lay


ENTRY = Mutation(
    code="M14",
    description="A padded token neither is seen nor sees.",
    variants={"queries": {"call": turned(False)}, "queries and keys": {"call": turned(True)}},
    detected_by=("masks_combine", "fully_masked_rows"),
    harmless_when="T differs from S, or the mask is written out",
    reported_in=("pytorch/pytorch#63271",),
)
