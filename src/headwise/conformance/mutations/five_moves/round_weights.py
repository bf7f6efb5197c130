"""Weights are kept in 3 bits: cheap to store, and no longer a softmax."""

from flint import arb, arb_mat

from headwise.conformance.exact import exact_trace as walk
from headwise.conformance.exact.ball_arithmetic import matrix
from headwise.conformance.mutations.mutation import Mutation


def weigh(scores: arb_mat) -> arb_mat:
    return matrix([[(weight * 8 + arb("0.5")).floor() / 8 for weight in line] for line in walk.weigh(scores).tolist()])


ENTRY = Mutation(
    description="Three bits a weight are enough.",
    variants={"": {"weigh": weigh}},
    level="exact",
    detected_by=("rows_are_softmax", "single_head_equivalence"),
    harmless_when="all weights are whole eighths",
)
