"""The fill is written 1e-9 where -1e9 was meant."""

from headwise.conformance.mutations.mutable_attention import State, scores
from headwise.conformance.mutations.mutation import Mutation


def filled(number: float):
    def fill(state: State):
        return scores(state).masked_fill(~state.visible, number)

    return fill


ENTRY = Mutation(
    code="M05",
    description="A very small number hides.",
    variants={"-1e-9": {"scores": filled(-1e-9)}, "0": {"scores": filled(0.0)}},
    detected_by=("hidden_keys_are_ignored",),
    harmless_when="nothing is hidden",
    reported_in=("awslabs/gluonts#1401", "hyunwoongko/transformer#10"),
)
