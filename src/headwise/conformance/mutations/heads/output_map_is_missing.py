"""The heads are laid side by side, and that is the output."""

from headwise.attention.projections import concat_heads
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At


def side_by_side(at: At):
    return concat_heads(at.z)


ENTRY = Lie(
    code="M38",
    lie="Concatenation is enough.",
    told={"concat": {"out": side_by_side}},
    caught_by=("output_has_the_right_shape", "heads_write_separately"),
    level="layer",
    blind_when="w_o is the identity",
    seen_in=("Kyubyong/transformer#117", "rasbt/LLMs-from-scratch#67"),
)
