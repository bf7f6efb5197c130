"""The weights that are shown are computed again, and the sink is forgotten there."""

from headwise.attention.dense import softmax
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def without_sink(state: State):
    return softmax(state.scores)[0]


ENTRY = Mutation(
    code="M46",
    description="Rows sum to 1.",
    variants={"computed again": {"returned_weights": without_sink}},
    detected_by=("attention_sink", "returned_weights_match_output"),
    harmless_when="there is no sink",
    reported_in=("TransformerLensOrg/TransformerLens#1621",),
)
