"""The softmax runs over queries: columns sum to 1, and rows do not. Training goes on as if nothing had happened."""

from flint import arb_mat

from headwise.conformance.exact import exact_trace as walk
from headwise.conformance.mutations.attack import Attack


def weigh(scores: arb_mat) -> arb_mat:
    return walk.weigh(scores.transpose()).transpose()


ENTRY = Attack(
    lie="A softmax is a softmax, along whichever axis.",
    instead={"weigh": weigh},
    caught_by=("rows_are_softmax", "one_head_is_single"),
    blind_when="there is one token",
    seen_in="https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
)
