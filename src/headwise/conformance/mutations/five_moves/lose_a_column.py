"""The last head says one number less than its share, and the last row of w_o is read by nobody."""

from dataclasses import replace

from flint import arb_mat

from headwise.conformance.exact.ball_arithmetic import matrix, row
from headwise.conformance.exact.exact_trace import Layer, Slices, columns, split
from headwise.conformance.mutations.attack import Attack


def shorter(layer: Layer, heads: int) -> Slices:
    honest = split(layer, heads)
    kept = range(honest.w_v[-1].ncols() - 1)
    w_o = columns(honest.w_o[-1].transpose(), kept).transpose()
    return replace(honest, w_v=(*honest.w_v[:-1], columns(honest.w_v[-1], kept)), w_o=(*honest.w_o[:-1], w_o))


def combine(concat: arb_mat, w_o: arb_mat) -> arb_mat:
    return concat * matrix([row(w_o, i) for i in range(concat.ncols())])


ENTRY = Attack(
    lie="A width that heads do not divide can be rounded down.",
    instead={"split": shorter, "combine": combine},
    caught_by=("heads_fill_the_model",),
    blind_when="never",
)
