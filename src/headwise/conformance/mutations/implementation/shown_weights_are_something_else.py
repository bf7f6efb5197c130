"""What is shown is another tensor of the way: the scores, or the mass before it was divided."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def scores(at: At):
    return at.scores


def mass(at: At):
    return at.scores.exp()


ENTRY = Lie(
    code="M42",
    lie="A pattern is a pattern.",
    told={"scores": {"reported": scores}, "before the division": {"reported": mass}},
    caught_by=("what_is_shown_is_what_was_used", "rows_sum_to_one"),
    blind_when="weights are not shown",
    seen_in=("TransformerLensOrg/TransformerLens#1191",),
)
