"""One walk from x to out in ball arithmetic, from exact numbers: every matrix, head by head, as a proof needs it.

It takes the same steps as `attention/layer.py`. The steps are a table, so that an attack can put another in place of one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from flint import arb, arb_mat, fmpq_mat

from headwise.conformance.exact import ball_arithmetic as balls
from headwise.conformance.mutations.attack import Attack

Heads = tuple[arb_mat, ...]


@dataclass(frozen=True, eq=False)
class Layer:
    """x [T, M] and what was learned, [M, M] each, not yet split."""

    x: fmpq_mat
    w_q: fmpq_mat
    w_k: fmpq_mat
    w_v: fmpq_mat
    w_o: fmpq_mat


@dataclass(frozen=True, eq=False)
class Slices:
    """What each head reads through, [M, D], and the rows of w_o that it writes through, [D, M]."""

    w_q: tuple[fmpq_mat, ...]
    w_k: tuple[fmpq_mat, ...]
    w_v: tuple[fmpq_mat, ...]
    w_o: tuple[fmpq_mat, ...]


def split(layer: Layer, heads: int) -> Slices:
    """Head h has the h-th of so many equal parts: columns of w_q, w_k and w_v, rows of w_o."""
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
    """What one head adds to the output through its own rows."""
    return z * w_o


def combine(concat: arb_mat, w_o: arb_mat) -> arb_mat:
    """All heads through the whole of w_o, at once."""
    return concat * w_o


@dataclass(frozen=True)
class Steps:
    """The way, step by step."""

    split: Callable[[Layer, int], Slices] = split
    score: Callable[[arb_mat, arb_mat], arb_mat] = score
    weigh: Callable[[arb_mat], arb_mat] = weigh
    mix: Callable[[arb_mat, arb_mat], arb_mat] = mix
    write: Callable[[arb_mat, arb_mat], arb_mat] = write
    combine: Callable[[arb_mat, arb_mat], arb_mat] = combine


@dataclass(frozen=True, eq=False)
class Walk:
    """Every matrix of one walk. What each head has of its own is a tuple, one matrix a head."""

    layer: Layer
    heads: int
    attack: Attack | None
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

    def again(self, layer: Layer) -> "Walk":
        """The same way, lies included, with another layer."""
        return walk(layer, self.heads, self.attack)


def walk(layer: Layer, heads: int, attack: Attack | None = None) -> Walk:
    """Go from x to out with so many heads, honestly or as an attack has it."""
    steps = replace(Steps(), **attack.instead) if attack else Steps()
    x, slices = balls.enclose(layer.x), steps.split(layer, heads)
    q, k, v = (tuple(x * balls.enclose(w) for w in maps) for maps in (slices.w_q, slices.w_k, slices.w_v))
    scores = tuple(map(steps.score, q, k))
    weights = tuple(map(steps.weigh, scores))
    z = tuple(map(steps.mix, weights, v))
    concat = balls.side_by_side(z)
    writes = tuple(steps.write(said, balls.enclose(rows)) for said, rows in zip(z, slices.w_o, strict=True))
    out = steps.combine(concat, balls.enclose(layer.w_o))
    return Walk(layer, heads, attack, slices, q, k, v, scores, weights, z, concat, writes, out)


def columns(w: fmpq_mat, kept: range) -> fmpq_mat:
    """Some columns of a matrix."""
    return fmpq_mat(w.nrows(), len(kept), [w[row, column] for row in range(w.nrows()) for column in kept])
