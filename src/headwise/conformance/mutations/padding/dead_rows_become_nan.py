"""A row that sees no key goes through the softmax like any other: 0 / 0."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, weights, z
from headwise.conformance.mutations.plain_steps import plain_mix, plain_softmax


def when_shown(at: At):
    return plain_softmax(at) if at.how.weights else weights(at)


def mix_when_shown(at: At):
    return plain_mix(at) if at.how.weights else z(at)


def by_bool(at: At):
    return weights(at) if at.call.mask is None else plain_softmax(at)


def mix_by_bool(at: At):
    return z(at) if at.call.mask is None else plain_mix(at)


ENTRY = Lie(
    code="M01",
    lie="A softmax needs no guard: every row sees something.",
    told={
        "always": {"weights": plain_softmax, "z": plain_mix},
        "when weights are asked for": {"weights": when_shown, "z": mix_when_shown},
        "by a bool mask": {"weights": by_bool, "z": mix_by_bool},
    },
    caught_by=("dead_rows_are_as_declared",),
    blind_when="every row sees a key, or a sink",
    seen_in=("pytorch/pytorch#160064", "pytorch/pytorch#41508", "pytorch/pytorch#103963", "pytorch/pytorch#27968"),
)
