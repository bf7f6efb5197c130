"""The weights that are shown in training are those that dropout left."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def kept(state: State):
    return state.used_weights


ENTRY = Mutation(
    code="M40",
    description="What was used is what is shown, noise and all.",
    variants={"used_weights": {"returned_weights": kept}},
    detected_by=("rows_sum_to_one", "returned_weights_match_output"),
    harmless_when="dropout is off, or it is declared",
    reported_in=("pytorch/pytorch#42929",),
)
