"""M3: concatenating heads and projecting once is adding up what each head writes."""

from collections.abc import Iterator

from headwise.conformance.exact.ball_arithmetic import equal
from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import Residual
from headwise.conformance.invariants.invariant import Invariant


def compare(walk: ExactTrace) -> Iterator[Residual]:
    first, *others = walk.writes
    yield equal("out, and the sum of what the heads write", walk.out, sum(others, first))


ENTRY = Invariant(
    code="M3",
    statement="Concatenating the heads and projecting once equals adding up what each head writes through its own rows of w_o.",
    formula="concat(z) · w_o = Σ_h z_h · w_o[h]",
    levels=("exact",),
    compare=compare,
)
