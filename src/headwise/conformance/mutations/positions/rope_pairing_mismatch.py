"""Weights made for one pairing of rotary features are used with the other."""

from dataclasses import replace

from headwise.attention.position import Rotary
from headwise.conformance.mutations.mutable_layer import State
from headwise.conformance.mutations.mutation import Mutation

OTHER = {"halves": "neighbours", "neighbours": "halves"}


def other_pairs(state: State):
    position = state.problem.position
    return replace(position, pairing=OTHER[position.pairing]) if isinstance(position, Rotary) else position


ENTRY = Mutation(
    code="M47",
    description="Any two features may turn together.",
    variants={"the other pairing": {"position": other_pairs}},
    detected_by=("golden_values",),
    level="layer",
    harmless_when="heads are 2 wide; and to every test that looks at distances",
    reported_in=("huggingface/transformers#25199", "huggingface/nanotron#427"),
)
