"""What is shown is another tensor of the way: the scores, or the mass before it was divided."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def scores(state: State):
    return state.scores


def mass(state: State):
    return state.scores.exp()


ENTRY = Mutation(
    code="M42",
    description="A pattern is a pattern.",
    variants={"scores": {"returned_weights": scores}, "before the division": {"returned_weights": mass}},
    detected_by=("returned_weights_match_output", "rows_sum_to_one"),
    harmless_when="weights are not shown",
    reported_in=("TransformerLensOrg/TransformerLens#1191",),
)
