"""The witness goes another way, and looks whether it arrives at the same place. It turns red when an invariant falls.

Where the walk multiplies activations, the witness multiplies maps: through w_q·w_kᵀ and w_v·w_o a head reads and writes x
without any query, key, value or z, and up to the softmax all of it is exact, in fractions. Weights are judged by
their ratios, and independence by what moves when one head's own columns are changed.

References: the two circuits: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from flint import arb, arb_mat, fmpq_mat

from headwise.catalog import entries
from headwise.conformance.exact.ball_arithmetic import differ, enclose, equal, matrix, row, softmax
from headwise.conformance.exact.exact_trace import Layer, Walk
from headwise.conformance.invariants.invariant import Invariant, Residual, Verdict, count, judge


def widths(walk: Walk) -> Iterator[Residual]:
    """M1 from the maps, not from what flows through them."""
    model = walk.layer.x.ncols()
    yield count("columns of all w_q, and the width of the model", sum(w.ncols() for w in walk.slices.w_q), model)
    yield count("columns of all w_v, and rows of w_o", sum(w.ncols() for w in walk.slices.w_v), walk.layer.w_o.nrows())
    yield count("rows of w_o that some head writes through, and all of them", sum(w.nrows() for w in walk.slices.w_o), walk.layer.w_o.nrows())


def ratios(walk: Walk) -> Iterator[Residual]:
    """M2: weights in a row stand to each other as the exponentials of their scores, add up to 1, and mix the values."""
    for head, (scores, weights) in enumerate(zip(walk.scores, walk.weights, strict=True)):
        yield equal(f"head {head}: w_ij · e^s_i0, and w_i0 · e^s_ij", *cross(weights, scores))
        yield equal(f"head {head}: 1 less all weights but one, and that one", *last_of(weights))
        yield equal(f"head {head}: z, and what each key adds", walk.z[head], key_by_key(weights, walk.v[head]))


def circuits(walk: Walk) -> Iterator[Residual]:
    """M3: out as the sum of weights · x · (w_v·w_o), with no z."""
    writes = [through(walk, head, weights) for head, weights in enumerate(walk.weights)]
    yield equal("out, and the sum over heads of weights · x · (w_v·w_o)", walk.out, sum(writes[1:], writes[0]))


def heads_alone(walk: Walk) -> Iterator[Residual]:
    """M4: what each head writes, from x and its two circuits alone."""
    for head, writes in enumerate(walk.writes):
        yield equal(f"head {head}: its writes, and its two circuits", writes, through(walk, head, pattern(walk, head)))


def nudges(walk: Walk) -> Iterator[Residual]:
    """M5: when the columns of one head are changed its pattern moves, and no other does."""
    for head in range(walk.heads):
        moved = walk.again(nudged(walk.layer, head, walk.heads))
        for other in range(walk.heads):
            compare, said = (differ, "moves") if other == head else (equal, "stays")
            yield compare(f"columns of head {head} changed: pattern of head {other} {said}", walk.weights[other], moved.weights[other])


ROUTES: Mapping[str, Callable[[Walk], Iterator[Residual]]] = MappingProxyType(
    {
        "heads_fill_the_model": widths,
        "rows_are_softmax": ratios,
        "heads_add_up": circuits,
        "one_head_is_single": heads_alone,
        "heads_are_independent": nudges,
    }
)


def witness(walk: Walk) -> Mapping[str, Verdict]:
    """A verdict on every invariant, by code, each by the other way."""
    found: dict[str, Invariant] = {name: entries("headwise.conformance.invariants")[name] for name in ROUTES}
    return MappingProxyType({invariant.code: judge(walk, ROUTES[name], invariant.vacuous) for name, invariant in found.items()})


def pattern(walk: Walk, head: int) -> arb_mat:
    """softmax(x · (w_q·w_kᵀ) · xᵀ / √D): one product of maps, exact up to the root."""
    x, w_q, w_k = walk.layer.x, walk.slices.w_q[head], walk.slices.w_k[head]
    scores = enclose(x * (w_q * w_k.transpose()) * x.transpose()) * (1 / arb(w_q.ncols()).sqrt())
    return matrix([softmax(row(scores, i)) for i in range(scores.nrows())])


def through(walk: Walk, head: int, weights: arb_mat) -> arb_mat:
    """weights · x · (w_v·w_o): what a head writes, the other product of maps."""
    return weights * enclose(walk.layer.x * (walk.slices.w_v[head] * walk.slices.w_o[head]))


def nudged(layer: Layer, head: int, heads: int) -> Layer:
    """1 more in every column of w_q that belongs to this head, in a row of its own each."""
    width = layer.w_q.ncols() // heads
    own = range(head * width, (head + 1) * width)
    rows, columns = layer.w_q.nrows(), layer.w_q.ncols()
    more = [int(column in own and row == column % rows) for row in range(rows) for column in range(columns)]
    return replace(layer, w_q=layer.w_q + fmpq_mat(rows, columns, more))


def cross(weights: arb_mat, scores: arb_mat) -> tuple[arb_mat, arb_mat]:
    """Both sides of w_ij / w_i0 = e^s_ij / e^s_i0, multiplied out: nothing is divided by."""
    lines = list(zip(weights.tolist(), scores.tolist(), strict=True))
    return matrix([[w * s[0].exp() for w in ws] for ws, s in lines]), matrix([[ws[0] * s.exp() for s in ss] for ws, ss in lines])


def last_of(weights: arb_mat) -> tuple[arb_mat, arb_mat]:
    lines = weights.tolist()
    return matrix([[1 - sum(line[:-1], arb(0))] for line in lines]), matrix([[line[-1]] for line in lines])


def key_by_key(weights: arb_mat, v: arb_mat) -> arb_mat:
    """Σ_j column j of the weights · row j of the values."""
    parts = [matrix([[weight] for weight in row(weights.transpose(), j)]) * matrix([row(v, j)]) for j in range(v.nrows())]
    return sum(parts[1:], parts[0])
