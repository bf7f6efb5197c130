"""A hidden score becomes 0, which is a score like any other."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unmasked_scores


def multiplied(state: State):
    return unmasked_scores(state).nan_to_num(neginf=0.0) * state.visible


ENTRY = Mutation(
    code="M07",
    description="A score of 0 is no score.",
    variants={"scores times mask": {"scores": multiplied}},
    detected_by=("hidden_keys_are_ignored",),
    harmless_when="nothing is hidden",
    reported_in=("georg-wolflein/good-features#1",),
)
