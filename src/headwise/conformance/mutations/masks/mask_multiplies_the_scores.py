"""A hidden score becomes 0, which is a score like any other."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.mutations.plain_steps import unhidden


def multiplied(at: At):
    return unhidden(at).nan_to_num(neginf=0.0) * at.seen


ENTRY = Lie(
    code="M07",
    lie="A score of 0 is no score.",
    told={"scores times mask": {"scores": multiplied}},
    caught_by=("hidden_keys_do_not_matter",),
    blind_when="nothing is hidden",
    seen_in=("georg-wolflein/good-features#1",),
)
