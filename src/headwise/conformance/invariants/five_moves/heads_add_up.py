"""M3: concatenating heads and projecting once is adding up what each head writes."""

from collections.abc import Iterator

from headwise.conformance.exact.ball_arithmetic import equal
from headwise.conformance.exact.exact_trace import Walk
from headwise.conformance.invariants.invariant import Invariant, Residual


def check(walk: Walk) -> Iterator[Residual]:
    first, *others = walk.writes
    yield equal("out, and the sum of what the heads write", walk.out, sum(others, first))


ENTRY = Invariant(
    code="M3",
    statement="Concatenating the heads and projecting once equals adding up what each head writes through its own rows of w_o.",
    formula="concat(z) · w_o = Σ_h z_h · w_o[h]",
    check=check,
)
