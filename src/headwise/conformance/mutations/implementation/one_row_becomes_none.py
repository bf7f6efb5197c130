"""A batch of one comes back as a batch of none."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


def emptied(at: At):
    return output(at)[: 0 if len(at.q) == 1 else None]


ENTRY = Lie(
    code="M73",
    lie="A batch of one is no batch.",
    told={"B = 0 for B = 1": {"output": emptied}},
    caught_by=("output_has_the_right_shape",),
    blind_when="B ≠ 1",
    seen_in=("tenstorrent/tt-metal#16021",),
)
