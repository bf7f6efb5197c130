"""A batch of one comes back as a batch of none."""

from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


def emptied(state: State):
    return output(state)[: 0 if len(state.q) == 1 else None]


ENTRY = Mutation(
    code="M73",
    description="A batch of one is no batch.",
    variants={"B = 0 for B = 1": {"output": emptied}},
    detected_by=("output_shape",),
    harmless_when="B ≠ 1",
    reported_in=("tenstorrent/tt-metal#16021",),
)
