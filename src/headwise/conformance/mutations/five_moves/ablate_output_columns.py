"""Head 0 is silenced by zeroing the first columns of the output, where heads are mixed already."""

from flint import arb_mat

from headwise.conformance.exact import exact_trace as walk
from headwise.conformance.exact.ball_arithmetic import matrix
from headwise.conformance.mutations.mutation import Mutation


def combine(concat: arb_mat, w_o: arb_mat) -> arb_mat:
    return matrix([[number * 0, *others] for number, *others in walk.combine(concat, w_o).tolist()])


ENTRY = Mutation(
    description="The first columns of the output are head 0.",
    variants={"": {"combine": combine}},
    level="exact",
    detected_by=("output_is_sum_of_heads",),
    harmless_when="never",
)
