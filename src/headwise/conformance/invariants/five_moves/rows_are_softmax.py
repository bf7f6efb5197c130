"""M2: each query shares itself out over the keys."""

from collections.abc import Iterator

from flint import arb, arb_mat

from headwise.conformance.exact.ball_arithmetic import equal, matrix, row
from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import Residual
from headwise.conformance.invariants.invariant import Invariant


def compare(walk: ExactTrace) -> Iterator[Residual]:
    for head, (scores, weights) in enumerate(zip(walk.scores, walk.weights, strict=True)):
        ones = arb_mat([[1]] * weights.nrows())
        yield equal(f"head {head}: the sum of each row, and 1", weights * arb_mat([[1]] * weights.ncols()), ones)
        yield equal(f"head {head}: weights, and the softmax of the scores", weights, matrix([shares(row(scores, i)) for i in range(scores.nrows())]))
        yield equal(f"head {head}: z, and the values taken by their weights", walk.z[head], weights * walk.v[head])


def shares(scores: list[arb]) -> list[arb]:
    """The softmax by differences: 1 / Σ_k e^(s_k - s_j)."""
    return [1 / sum(((other - score).exp() for other in scores), arb(0)) for score in scores]


ENTRY = Invariant(
    code="M2",
    statement="Each head mixes its values by weights whose every row is the softmax of its scores, and so sums to 1.",
    formula="w_ij = e^s_ij / Σ_k e^s_ik    Σ_j w_ij = 1    z = w · v",
    levels=("exact",),
    compare=compare,
)
