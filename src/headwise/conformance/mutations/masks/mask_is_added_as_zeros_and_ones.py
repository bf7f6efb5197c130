"""A mask of 0 and 1 is added to the scores: what may be seen gets a little more, and nothing is hidden."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.mutations.plain_steps import unhidden


def added(at: At):
    return unhidden(at) + at.seen.to(at.raw.dtype)


ENTRY = Lie(
    code="M09",
    lie="A mask is a number that is added.",
    told={"scores plus mask": {"scores": added}},
    caught_by=("the_future_does_not_matter", "hidden_keys_do_not_matter"),
    blind_when="nothing is hidden",
    seen_in=("pytorch/pytorch#21518",),
)
