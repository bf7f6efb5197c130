"""One pattern is shown, the mean of all heads: as one plane, or as the same plane for each head."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def mean(state: State):
    return state.weights.mean(1)


def mean_for_each(state: State):
    return state.weights.mean(1, keepdim=True).expand_as(state.weights)


ENTRY = Mutation(
    code="M41",
    description="Heads look at the same on the whole.",
    variants={"one plane": {"returned_weights": mean}, "the same plane for each": {"returned_weights": mean_for_each}},
    detected_by=("returned_weights_match_output", "heads_do_not_interact"),
    harmless_when="there is one head, or averaging is declared",
    reported_in=("pytorch/pytorch#34537",),
)
