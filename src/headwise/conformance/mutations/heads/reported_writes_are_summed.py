"""What is shown for each head is what all heads wrote together."""

from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation


def summed(state: State):
    return state.out[:, None].expand_as(state.writes)


ENTRY = Mutation(
    code="M42",
    description="The result of a head is the result.",
    variants={"the output": {"reported_writes": summed}},
    detected_by=("output_projection_per_head", "returned_weights_match_output"),
    level="layer",
    harmless_when="there is one head and no bias",
    reported_in=("TransformerLensOrg/TransformerLens#1191",),
)
