"""The softmax runs over queries: columns sum to 1, and rows do not. Training goes on as if nothing had happened."""

from flint import arb_mat

from headwise.conformance.exact import exact_trace as walk
from headwise.conformance.mutations.mutation import Mutation


def weigh(scores: arb_mat) -> arb_mat:
    return walk.weigh(scores.transpose()).transpose()


ENTRY = Mutation(
    description="A softmax is a softmax, along whichever axis.",
    variants={"": {"weigh": weigh}},
    level="exact",
    detected_by=("rows_are_softmax", "single_head_equivalence"),
    harmless_when="there is one token",
    reported_in=("labmlai/annotated_deep_learning_paper_implementations#146",),
)
