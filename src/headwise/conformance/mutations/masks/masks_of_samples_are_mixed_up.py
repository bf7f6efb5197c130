"""A mask for each sample is tiled over the heads as M0 M1 M0 M1, where the heads of one sample stand together."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def tiled(at: At):
    honest, heads = call(at), at.problem.shape[1]
    if honest.mask is None or len(honest.mask) == 1 or honest.mask.shape[1] > 1:
        return honest
    return replace(honest, mask=honest.mask[:, 0].repeat(heads, 1, 1).unflatten(0, (-1, heads)))


ENTRY = Lie(
    code="M13",
    lie="It does not matter whether heads are folded before or behind the batch.",
    told={"repeat": {"call": tiled}},
    caught_by=("padding_does_not_matter", "batch_rows_stand_alone"),
    blind_when="there is one sample or one head",
    seen_in=("line/lighthouse#77", "lsdefine/attention-is-all-you-need-keras#36", "reczoo/FuxiCTR#130"),
)
