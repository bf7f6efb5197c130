"""A hidden score becomes 0, which is a score like any other."""

from headwise.proof.attacks._plain import unhidden
from headwise.proof.call_way import At
from headwise.proof.lie import Lie


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
