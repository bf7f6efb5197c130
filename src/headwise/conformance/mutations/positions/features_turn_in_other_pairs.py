"""Weights made for one pairing of rotary features are used with the other."""

from dataclasses import replace

from headwise.attention.position import Rotary
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At

OTHER = {"halves": "neighbours", "neighbours": "halves"}


def other_pairs(at: At):
    position = at.problem.position
    return replace(position, pairing=OTHER[position.pairing]) if isinstance(position, Rotary) else position


ENTRY = Lie(
    code="M47",
    lie="Any two features may turn together.",
    told={"the other pairing": {"position": other_pairs}},
    caught_by=("golden_numbers",),
    level="layer",
    blind_when="heads are 2 wide; and to every test that looks at distances",
    seen_in=("huggingface/transformers#25199", "huggingface/nanotron#427"),
)
