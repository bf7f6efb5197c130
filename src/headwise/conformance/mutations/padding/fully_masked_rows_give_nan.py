"""A row that sees no key goes through the softmax like any other: 0 / 0."""

from headwise.conformance.mutations.mutable_attention import State, weights, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unguarded_softmax


def when_shown(state: State):
    return unguarded_softmax(state) if state.mode.weights else weights(state)


def mix_when_shown(state: State):
    return unguarded_mix(state) if state.mode.weights else z(state)


def by_bool(state: State):
    return weights(state) if state.call.mask is None else unguarded_softmax(state)


def mix_by_bool(state: State):
    return z(state) if state.call.mask is None else unguarded_mix(state)


ENTRY = Mutation(
    code="M01",
    description="A softmax needs no guard: every row sees something.",
    variants={
        "always": {"weights": unguarded_softmax, "z": unguarded_mix},
        "when weights are asked for": {"weights": when_shown, "z": mix_when_shown},
        "by a bool mask": {"weights": by_bool, "z": mix_by_bool},
    },
    detected_by=("fully_masked_rows",),
    harmless_when="every row sees a key, or a sink",
    reported_in=("pytorch/pytorch#160064", "pytorch/pytorch#41508", "pytorch/pytorch#103963", "pytorch/pytorch#27968"),
)
