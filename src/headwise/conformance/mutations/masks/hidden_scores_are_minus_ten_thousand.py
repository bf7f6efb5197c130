"""The number that hides is one that real scores can reach."""

from headwise.conformance.mutations.mutable_attention import State, scores
from headwise.conformance.mutations.mutation import Mutation


def filled(number: float):
    def fill(state: State):
        return scores(state).masked_fill(~state.visible, number)

    return fill


ENTRY = Mutation(
    code="M04",
    description="No score is as low as that.",
    variants={"-1e4": {"scores": filled(-1e4)}, "-1e5": {"scores": filled(-1e5)}},
    detected_by=("hidden_keys_are_ignored", "large_scores_are_stable"),
    harmless_when="scores are ordinary",
    reported_in=("TransformerLensOrg/TransformerLens#385", "huggingface/transformers#3181"),
)
