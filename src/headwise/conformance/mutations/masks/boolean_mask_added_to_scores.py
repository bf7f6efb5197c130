"""A mask of 0 and 1 is added to the scores: what may be seen gets a little more, and nothing is hidden."""

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unmasked_scores


def added(state: State):
    return unmasked_scores(state) + state.visible.to(state.raw_scores.dtype)


ENTRY = Mutation(
    code="M09",
    description="A mask is a number that is added.",
    variants={"scores plus mask": {"scores": added}},
    detected_by=("causality", "hidden_keys_are_ignored"),
    harmless_when="nothing is hidden",
    reported_in=("pytorch/pytorch#21518",),
)
