"""M4: several heads are single-head attention, several times; one head is single-head attention."""

from collections.abc import Iterator

from flint import arb, arb_mat, fmpq_mat

from headwise.conformance.exact.ball_arithmetic import dot, enclose, equal, matrix, row
from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import Residual
from headwise.conformance.invariants.invariant import Invariant


def compare(walk: ExactTrace) -> Iterator[Residual]:
    for head, z in enumerate(walk.z):
        own = (maps[head] for maps in (walk.slices.w_q, walk.slices.w_k, walk.slices.w_v))
        yield equal(f"head {head}, and single-head attention with its slices", z, single(walk.layer.x, *own))
    if walk.heads == 1 and walk.concat.ncols() == walk.layer.w_v.ncols():  # a column that got lost is M1's to find
        alone = single(walk.layer.x, walk.layer.w_q, walk.layer.w_k, walk.layer.w_v)
        yield equal("what one head says, and single-head attention with the whole maps", walk.concat, alone)


def single(x: fmpq_mat, w_q: fmpq_mat, w_k: fmpq_mat, w_v: fmpq_mat) -> arb_mat:
    """Attention(Q, K, V) as the paper defines it, one row at a time: no head is mentioned."""
    q, k, v = (enclose(x * w) for w in (w_q, w_k, w_v))
    return matrix([one_row(row(q, i), k, v) for i in range(q.nrows())])


def one_row(query: list[arb], k: arb_mat, v: arb_mat) -> list[arb]:
    mass = [(dot(query, row(k, j)) / arb(len(query)).sqrt()).exp() for j in range(k.nrows())]
    return [dot(mass, row(v.transpose(), e)) / sum(mass, arb(0)) for e in range(v.ncols())]


ENTRY = Invariant(
    code="M4",
    statement="With one head it is single-head attention, and a head alone is single-head attention with its own slices.",
    formula="z_h = softmax(x·w_q[h] · (x·w_k[h])ᵀ / √D) · x·w_v[h]",
    levels=("exact",),
    compare=compare,
)
