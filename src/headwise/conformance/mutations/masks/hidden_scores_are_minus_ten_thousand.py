"""The number that hides is one that real scores can reach."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores


def filled(number: float):
    def fill(at: At):
        return scores(at).masked_fill(~at.seen, number)

    return fill


ENTRY = Lie(
    code="M04",
    lie="No score is as low as that.",
    told={"-1e4": {"scores": filled(-1e4)}, "-1e5": {"scores": filled(-1e5)}},
    caught_by=("hidden_keys_do_not_matter", "loud_scores_are_no_trouble"),
    blind_when="scores are ordinary",
    seen_in=("TransformerLensOrg/TransformerLens#385", "huggingface/transformers#3181"),
)
