"""A causal hint comes with a mask: one path looks at the hint only, the other at the mask only."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def one_of_them(state: State):
    original: Any = call(state)
    if not original.causal or original.mask is None:
        return original
    return replace(original, causal=False) if state.mode.weights else replace(original, mask=None)


ENTRY = Mutation(
    code="M21",
    description="A hint says the same as the mask.",
    variants={"by weights": {"call": one_of_them}},
    detected_by=("code_paths_agree", "masks_combine"),
    harmless_when="the mask is the causal one",
    reported_in=("pytorch/pytorch#178588",),
)
