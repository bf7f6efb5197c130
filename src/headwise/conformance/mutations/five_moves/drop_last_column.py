"""The last head says one number less than its share, and the last row of w_o is read by nobody."""

from dataclasses import replace

from flint import arb_mat

from headwise.conformance.exact.ball_arithmetic import matrix, row
from headwise.conformance.exact.exact_trace import ExactLayer, Slices, columns, split
from headwise.conformance.mutations.mutation import Mutation


def shorter(layer: ExactLayer, heads: int) -> Slices:
    original = split(layer, heads)
    kept = range(original.w_v[-1].ncols() - 1)
    w_o = columns(original.w_o[-1].transpose(), kept).transpose()
    return replace(original, w_v=(*original.w_v[:-1], columns(original.w_v[-1], kept)), w_o=(*original.w_o[:-1], w_o))


def combine(concat: arb_mat, w_o: arb_mat) -> arb_mat:
    return concat * matrix([row(w_o, i) for i in range(concat.ncols())])


ENTRY = Mutation(
    description="A width that heads do not divide can be rounded down.",
    variants={"": {"split": shorter, "combine": combine}},
    level="exact",
    detected_by=("head_widths_sum_to_d_model",),
    harmless_when="never",
)
