"""What a head writes is read off the block of its neighbour: the output is right, the account of who wrote it is wrong."""

from dataclasses import replace

from headwise.conformance.exact.exact_trace import Layer, Slices, split
from headwise.conformance.mutations.attack import Attack


def swapped(layer: Layer, heads: int) -> Slices:
    honest = split(layer, heads)
    return replace(honest, w_o=honest.w_o[1:2] + honest.w_o[:1] + honest.w_o[2:])


ENTRY = Attack(
    lie="The blocks of w_o can be told apart in any order.",
    instead={"split": swapped},
    caught_by=("heads_add_up",),
    blind_when="there is one head",
)
