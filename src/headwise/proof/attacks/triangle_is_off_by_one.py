"""A query sees the next token too; or not even its own."""

from dataclasses import replace

from headwise.proof.attacks._plain import place, seen_under
from headwise.proof.call_way import At, seen
from headwise.proof.lie import Lie


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
