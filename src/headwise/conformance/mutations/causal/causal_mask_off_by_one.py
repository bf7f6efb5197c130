"""A query sees the next token too; or not even its own."""

from dataclasses import replace

from headwise.conformance.mutations.mutable_attention import State, visible
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import positions_of, visible_under


def moved(step: int):
    def look(state: State):
        if not state.call.causal:
            return visible(state)
        p, j = positions_of(state)
        return visible_under(state, replace(state.call, causal=False)) & (j <= p + step)

    return look


ENTRY = Mutation(
    code="M18",
    description="One more or less makes no difference.",
    variants={"the next too": {"visible": moved(1)}, "its own not": {"visible": moved(-1)}},
    detected_by=("causality",),
    harmless_when="attention is not causal",
    reported_in=("facebookresearch/fairseq#1495",),
)
