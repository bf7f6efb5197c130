"""The heads are laid side by side, and that is the output."""

from headwise.attention.projections import concat_heads
from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation


def side_by_side(state: State):
    return concat_heads(state.z)


ENTRY = Mutation(
    code="M38",
    description="Concatenation is enough.",
    variants={"concat": {"out": side_by_side}},
    detected_by=("output_shape", "output_projection_per_head"),
    level="layer",
    harmless_when="w_o is the identity",
    reported_in=("Kyubyong/transformer#117", "rasbt/LLMs-from-scratch#67"),
)
