"""The witness: the five moves verified by another route. It turns red when a move falls.

Where the computation multiplies activations, the witness multiplies weight matrices: through w_q·w_kᵀ and w_v·w_o a head reads and writes x without any query,
key, value or z, and up to the softmax all of it is exact, in fractions. Weights are verified by their ratios, and independence by the effect of changing one
head's own columns.

References: the two circuits: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from flint import arb, arb_mat, fmpq_mat

from headwise.conformance.exact.ball_arithmetic import differ, enclose, equal, matrix, row, softmax
from headwise.conformance.exact.exact_trace import ExactLayer, ExactTrace
from headwise.conformance.exact.move_verdict import MoveVerdict, Residual, compare_counts, judge_move


def widths(trace: ExactTrace) -> Iterator[Residual]:
    """M1 from the shapes of the weight matrices instead of the activations."""
    model = trace.layer.x.ncols()
    yield compare_counts("columns of all w_q, and the width of the model", sum(w.ncols() for w in trace.slices.w_q), model)
    yield compare_counts("columns of all w_v, and rows of w_o", sum(w.ncols() for w in trace.slices.w_v), trace.layer.w_o.nrows())
    yield compare_counts("rows of w_o that belong to a head, and all of them", sum(w.nrows() for w in trace.slices.w_o), trace.layer.w_o.nrows())


def ratios(trace: ExactTrace) -> Iterator[Residual]:
    """M2: the weights of a row have the ratios of the exponentials of their scores, sum to 1, and mix the values."""
    for head, (scores, weights) in enumerate(zip(trace.scores, trace.weights, strict=True)):
        yield equal(f"head {head}: w_ij · e^s_i0, and w_i0 · e^s_ij", *cross(weights, scores))
        yield equal(f"head {head}: 1 minus all weights but the last, and the last", *last_of(weights))
        yield equal(f"head {head}: z, and the sum over keys", trace.z[head], key_by_key(weights, trace.v[head]))


def circuits(trace: ExactTrace) -> Iterator[Residual]:
    """M3: the output as the sum of weights · x · (w_v·w_o), without z."""
    writes = [ov_circuit(trace, head, weights) for head, weights in enumerate(trace.weights)]
    yield equal("out, and the sum over heads of weights · x · (w_v·w_o)", trace.out, sum(writes[1:], writes[0]))


def heads_in_isolation(trace: ExactTrace) -> Iterator[Residual]:
    """M4: the writes of each head, from x and its two circuits alone."""
    for head, writes in enumerate(trace.writes):
        yield equal(f"head {head}: its writes, and its two circuits", writes, ov_circuit(trace, head, qk_circuit(trace, head)))


def nudges(trace: ExactTrace) -> Iterator[Residual]:
    """M5: when the columns of one head are changed its pattern changes, and no other does."""
    for head in range(trace.heads):
        changed = trace.rerun(nudged(trace.layer, head, trace.heads))
        for other in range(trace.heads):
            compare, effect = (differ, "changes") if other == head else (equal, "does not change")
            yield compare(f"columns of head {head} changed: the pattern of head {other} {effect}", trace.weights[other], changed.weights[other])


ROUTES: Mapping[str, Callable[[ExactTrace], Iterator[Residual]]] = MappingProxyType(
    {"M1": widths, "M2": ratios, "M3": circuits, "M4": heads_in_isolation, "M5": nudges}
)


def witness(trace: ExactTrace, vacuous: Mapping[str, Callable[[ExactTrace], str | None]]) -> Mapping[str, MoveVerdict]:
    """A verdict on each of the five moves, by code, each by another route.

    Args:
        vacuous: by code, why a trace has nothing to verify, or None.
    """
    return MappingProxyType({code: judge_move(trace, ROUTES[code], vacuous[code]) for code in ROUTES})


def qk_circuit(trace: ExactTrace, head: int) -> arb_mat:
    """softmax(x · (w_q·w_kᵀ) · xᵀ / √D): one product of weight matrices, exact up to the root."""
    x, w_q, w_k = trace.layer.x, trace.slices.w_q[head], trace.slices.w_k[head]
    scores = enclose(x * (w_q * w_k.transpose()) * x.transpose()) * (1 / arb(w_q.ncols()).sqrt())
    return matrix([softmax(row(scores, i)) for i in range(scores.nrows())])


def ov_circuit(trace: ExactTrace, head: int, weights: arb_mat) -> arb_mat:
    """weights · x · (w_v·w_o): the writes of a head, by the other product of weight matrices."""
    return weights * enclose(trace.layer.x * (trace.slices.w_v[head] * trace.slices.w_o[head]))


def nudged(layer: ExactLayer, head: int, heads: int) -> ExactLayer:
    """The layer with 1 added to one number of every column of w_q that belongs to this head."""
    width = layer.w_q.ncols() // heads
    own = range(head * width, (head + 1) * width)
    rows, columns = layer.w_q.nrows(), layer.w_q.ncols()
    added = [int(column in own and row == column % rows) for row in range(rows) for column in range(columns)]
    return replace(layer, w_q=layer.w_q + fmpq_mat(rows, columns, added))


def cross(weights: arb_mat, scores: arb_mat) -> tuple[arb_mat, arb_mat]:
    """Both sides of w_ij / w_i0 = e^s_ij / e^s_i0, multiplied out so that nothing is divided."""
    lines = list(zip(weights.tolist(), scores.tolist(), strict=True))
    return matrix([[w * s[0].exp() for w in ws] for ws, s in lines]), matrix([[ws[0] * s.exp() for s in ss] for ws, ss in lines])


def last_of(weights: arb_mat) -> tuple[arb_mat, arb_mat]:
    """1 minus the sum of all weights but the last of each row, and the last."""
    lines = weights.tolist()
    return matrix([[1 - sum(line[:-1], arb(0))] for line in lines]), matrix([[line[-1]] for line in lines])


def key_by_key(weights: arb_mat, v: arb_mat) -> arb_mat:
    """Σ_j column j of the weights · row j of the values."""
    parts = [matrix([[weight] for weight in row(weights.transpose(), j)]) * matrix([row(v, j)]) for j in range(v.nrows())]
    return sum(parts[1:], parts[0])
