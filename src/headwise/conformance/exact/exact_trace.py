"""Multi-head attention in ball arithmetic, from exact numbers: every matrix from x to the output, head by head, as a proof needs it.

It takes the same steps as `attention/layer.py`. The steps are a table, so that a mutation can replace some of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flint import arb, arb_mat, fmpq_mat

from headwise.conformance.exact import ball_arithmetic as balls

Heads = tuple[arb_mat, ...]


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """x [T, M] and the projections, [M, M] each, not yet split by head."""

    x: fmpq_mat
    w_q: fmpq_mat
    w_k: fmpq_mat
    w_v: fmpq_mat
    w_o: fmpq_mat


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices of each head: [M, D] of w_q, w_k and w_v, and its rows of w_o, [D, M]."""

    w_q: tuple[fmpq_mat, ...]
    w_k: tuple[fmpq_mat, ...]
    w_v: tuple[fmpq_mat, ...]
    w_o: tuple[fmpq_mat, ...]


def split(layer: ExactLayer, heads: int) -> Slices:
    """Head h has the h-th of equal parts: columns of w_q, w_k and w_v, rows of w_o."""
    width = layer.w_o.nrows() // heads
    parts = [range(h * width, (h + 1) * width) for h in range(heads)]
    w_q, w_k, w_v = (tuple(columns(w, part) for part in parts) for w in (layer.w_q, layer.w_k, layer.w_v))
    return Slices(w_q, w_k, w_v, tuple(columns(layer.w_o.transpose(), part).transpose() for part in parts))


def score(q: arb_mat, k: arb_mat) -> arb_mat:
    """q·kᵀ / √D."""
    return q * k.transpose() * (1 / arb(q.ncols()).sqrt())


def weigh(scores: arb_mat) -> arb_mat:
    """The softmax of every row."""
    return balls.matrix([balls.softmax(balls.row(scores, query)) for query in range(scores.nrows())])


def mix(weights: arb_mat, v: arb_mat) -> arb_mat:
    """weights · v."""
    return weights * v


def write(z: arb_mat, w_o: arb_mat) -> arb_mat:
    """What one head adds to the output through its own rows of w_o."""
    return z * w_o


def combine(concat: arb_mat, w_o: arb_mat) -> arb_mat:
    """The concatenated heads through the whole of w_o."""
    return concat * w_o


@dataclass(frozen=True)
class ExactSteps:
    """The steps of the computation."""

    split: Callable[[ExactLayer, int], Slices] = split
    score: Callable[[arb_mat, arb_mat], arb_mat] = score
    weigh: Callable[[arb_mat], arb_mat] = weigh
    mix: Callable[[arb_mat, arb_mat], arb_mat] = mix
    write: Callable[[arb_mat, arb_mat], arb_mat] = write
    combine: Callable[[arb_mat, arb_mat], arb_mat] = combine


@dataclass(frozen=True, eq=False)
class ExactTrace:
    """Every matrix of one computation. What each head has of its own is a tuple of one matrix per head.

    Attributes:
        layer: the input.
        heads: H.
        slices: the slices that the heads used.
        replaced: the steps that a mutation replaced, by name.
    """

    layer: ExactLayer
    heads: int
    slices: Slices
    q: Heads
    k: Heads
    v: Heads
    scores: Heads
    weights: Heads
    z: Heads
    concat: arb_mat
    writes: Heads
    out: arb_mat
    replaced: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def rerun(self, layer: ExactLayer) -> "ExactTrace":
        """The same computation, mutation included, of another layer."""
        return exact_trace(layer, self.heads, self.replaced)


def exact_trace(layer: ExactLayer, heads: int, replaced: Mapping[str, Callable[..., Any]] | None = None) -> ExactTrace:
    """Compute the layer with this many heads.

    Args:
        replaced: the steps that a mutation replaces, by name.
    """
    steps = replace(ExactSteps(), **dict(replaced or {}))
    x, slices = balls.enclose(layer.x), steps.split(layer, heads)
    q, k, v = (tuple(x * balls.enclose(w) for w in per_head) for per_head in (slices.w_q, slices.w_k, slices.w_v))
    scores = tuple(map(steps.score, q, k))
    weights = tuple(map(steps.weigh, scores))
    z = tuple(map(steps.mix, weights, v))
    concat = balls.side_by_side(z)
    writes = tuple(steps.write(of_head, balls.enclose(rows)) for of_head, rows in zip(z, slices.w_o, strict=True))
    out = steps.combine(concat, balls.enclose(layer.w_o))
    return ExactTrace(layer, heads, slices, q, k, v, scores, weights, z, concat, writes, out, dict(replaced or {}))


def columns(w: fmpq_mat, kept: range) -> fmpq_mat:
    """Some columns of a matrix."""
    return fmpq_mat(w.nrows(), len(kept), [w[row, column] for row in range(w.nrows()) for column in kept])
