"""A query sees the next token too; or not even its own."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, seen
from headwise.conformance.mutations.plain_steps import place, seen_under


def moved(step: int):
    def look(at: At):
        if not at.call.causal:
            return seen(at)
        p, j = place(at)
        return seen_under(at, replace(at.call, causal=False)) & (j <= p + step)

    return look


ENTRY = Lie(
    code="M18",
    lie="One more or less makes no difference.",
    told={"the next too": {"seen": moved(1)}, "its own not": {"seen": moved(-1)}},
    caught_by=("the_future_does_not_matter",),
    blind_when="attention is not causal",
    seen_in=("facebookresearch/fairseq#1495",),
)
