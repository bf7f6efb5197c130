"""The fill is written 1e-9 where -1e9 was meant."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores


def filled(number: float):
    def fill(at: At):
        return scores(at).masked_fill(~at.seen, number)

    return fill


ENTRY = Lie(
    code="M05",
    lie="A very small number hides.",
    told={"-1e-9": {"scores": filled(-1e-9)}, "0": {"scores": filled(0.0)}},
    caught_by=("hidden_keys_do_not_matter",),
    blind_when="nothing is hidden",
    seen_in=("awslabs/gluonts#1401", "hyunwoongko/transformer#10"),
)
