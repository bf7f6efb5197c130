"""No fault, where there is no sink: 1 is added to every score that may be seen."""

from headwise.conformance.capabilities import ABILITIES, OPTIONS
from headwise.conformance.mutations.mutable_attention import State, scores
from headwise.conformance.mutations.mutation import Mutation


def lifted(state: State):
    return scores(state) + 1


ENTRY = Mutation(
    code="E4",
    description="Scores are off by one.",
    variants={"+ 1": {"scores": lifted}},
    detected_by=(),
    harmless_when="there is no sink: a softmax looks at differences",
    reported_in=("tinygrad/tinygrad#2425",),
    overrides={"supports": frozenset({*OPTIONS, *ABILITIES}) - {"sink", "lse"}},
)
