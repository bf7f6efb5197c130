"""M5: heads can look at different places."""

from collections.abc import Iterator
from itertools import combinations

from headwise.conformance.exact.ball_arithmetic import differ
from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import Residual
from headwise.conformance.invariants.invariant import Invariant


def compare(walk: ExactTrace) -> Iterator[Residual]:
    for one, other in combinations(range(walk.heads), 2):
        yield differ(f"patterns of heads {one} and {other}", walk.weights[one], walk.weights[other])


ENTRY = Invariant(
    code="M5",
    statement="Heads read different slices, so that they can attend to different patterns.",
    formula="weights_g ≠ weights_h for g ≠ h",
    levels=("exact",),
    compare=compare,
    vacuous=lambda walk: "there is one head, and no other to differ from" if walk.heads == 1 else None,
)
