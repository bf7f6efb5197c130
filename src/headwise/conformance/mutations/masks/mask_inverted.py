"""True means hidden, where True was to mean seen."""

from dataclasses import replace
from typing import Any

from headwise.conformance.mutations.mutable_attention import State, call
from headwise.conformance.mutations.mutation import Mutation


def turned(state: State):
    original: Any = call(state)
    return original if original.mask is None else replace(original, mask=~original.mask)


ENTRY = Mutation(
    code="M11",
    description="True is padding.",
    variants={"not the mask": {"call": turned}},
    detected_by=("hidden_keys_are_ignored", "padding_invariance"),
    harmless_when="there is no mask",
    reported_in=("InseeFrLab/torchTextClassifiers#92",),
)
