"""One pattern is shown, the mean of all heads: as one plane, or as the same plane for each head."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def mean(at: At):
    return at.weights.mean(1)


def mean_for_each(at: At):
    return at.weights.mean(1, keepdim=True).expand_as(at.weights)


ENTRY = Lie(
    code="M41",
    lie="Heads look at the same on the whole.",
    told={"one plane": {"reported": mean}, "the same plane for each": {"reported": mean_for_each}},
    caught_by=("what_is_shown_is_what_was_used", "heads_stand_alone"),
    blind_when="there is one head, or averaging is declared",
    seen_in=("pytorch/pytorch#34537",),
)
