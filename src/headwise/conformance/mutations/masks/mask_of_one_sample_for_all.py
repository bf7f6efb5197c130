"""The mask of the first sample is used for the whole batch."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def first(at: At):
    honest = call(at)
    return honest if honest.mask is None else replace(honest, mask=honest.mask[:1])


ENTRY = Lie(
    code="M16",
    lie="One mask does for all.",
    told={"of sample 0": {"call": first}},
    caught_by=("masks_combine", "batch_rows_stand_alone"),
    blind_when="there is one sample, or all have the same mask",
    seen_in=("tenstorrent/tt-metal#39910",),
)
