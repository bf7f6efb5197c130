"""M1: the width of the model is shared out among the heads, and nothing is left over."""

from collections.abc import Iterator

from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import Residual, compare_counts
from headwise.conformance.invariants.invariant import Invariant


def compare(walk: ExactTrace) -> Iterator[Residual]:
    says = [z.ncols() for z in walk.z]
    yield compare_counts(f"{added(says)} said by the heads, {walk.layer.w_o.nrows()} read by w_o", sum(says), walk.layer.w_o.nrows())
    asks = [q.ncols() for q in walk.q]
    yield compare_counts(f"{added(asks)} asked by the heads, {walk.layer.x.ncols()} in the model", sum(asks), walk.layer.x.ncols())


def added(widths: list[int]) -> str:
    """The sum as it is written."""
    return f"{' + '.join(map(str, widths))} = {sum(widths)}" if len(widths) > 1 else f"{widths[0]}"


ENTRY = Invariant(
    code="M1",
    statement="The width of the model is split over the heads; what they say, concatenated, has exactly the width that w_o reads.",
    formula="Σ_h D_h = M    Σ_h E_h = rows(w_o)",
    levels=("exact",),
    compare=compare,
)
