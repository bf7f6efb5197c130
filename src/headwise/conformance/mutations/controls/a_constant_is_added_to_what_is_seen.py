"""No fault, where there is no sink: 1 is added to every score that may be seen."""

from headwise.conformance.adapters.subject import ABILITIES, OPTIONS
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores


def lifted(at: At):
    return scores(at) + 1


ENTRY = Lie(
    code="E4",
    lie="Scores are off by one.",
    told={"+ 1": {"scores": lifted}},
    caught_by=(),
    blind_when="there is no sink: a softmax looks at differences",
    seen_in=("tinygrad/tinygrad#2425",),
    subject={"honours": frozenset({*OPTIONS, *ABILITIES}) - {"sink", "lse"}},
)
