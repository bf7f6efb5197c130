"""A mask for each sample is tiled over the heads as M0 M1 M0 M1, where the heads of one sample stand together."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def tiled(state: State):
    original, heads = call(state), state.problem.shape[1]
    if original.mask is None or len(original.mask) == 1 or original.mask.shape[1] > 1:  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
        return original
    return replace(original, mask=original.mask[:, 0].repeat(heads, 1, 1).unflatten(0, (-1, heads)))  # pyright: ignore[reportIndexIssue]


ENTRY = Mutation(
    code="M13",
    description="It does not matter whether heads are folded before or behind the batch.",
    variants={"repeat": {"call": tiled}},
    detected_by=("padding_invariance", "batch_independence"),
    harmless_when="there is one sample or one head",
    reported_in=("line/lighthouse#77", "lsdefine/attention-is-all-you-need-keras#36", "reczoo/FuxiCTR#130"),
)
