"""What a head writes is read off the block of its neighbour: the output is right, the account of who wrote it is wrong."""

from dataclasses import replace

from headwise.conformance.exact.exact_trace import ExactLayer, Slices, split
from headwise.conformance.mutations.mutation import Mutation


def swapped(layer: ExactLayer, heads: int) -> Slices:
    original = split(layer, heads)
    return replace(original, w_o=original.w_o[1:2] + original.w_o[:1] + original.w_o[2:])


ENTRY = Mutation(
    description="The blocks of w_o can be told apart in any order.",
    variants={"": {"split": swapped}},
    level="exact",
    detected_by=("output_is_sum_of_heads",),
    harmless_when="there is one head",
)
