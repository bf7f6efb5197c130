"""`certify`: the true error of an attention's numbers, proved, in units of the last place.

The floats that are given are rationals. From these, scores, weights, lse and output of a row are enclosed by ball
arithmetic: intervals that hold the true value whatever was rounded on the way. How far an implementation is off is then
known, not estimated against another float.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from flint import arb, arb_mat

from headwise.attention.call import Attended
from headwise.axes import Float, Int, Key, Query, Tensor, Value
from headwise.conformance.exact.ball_arithmetic import BITS, enclose, precision, row
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError, ArgumentTypeError, ShapeError

LEAST_BITS = 53  # fewer than the floats have would enclose nothing


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Numbers that are known to lie between `low` and `high`, in float64, rounded outwards."""

    low: Float[Tensor, "..."]
    high: Float[Tensor, "..."]

    @property
    def width(self) -> float:
        """The widest interval; two neighbouring floats are as close as float64 can say."""
        gaps = (self.high - self.low).flatten()
        return float(gaps[gaps.isfinite()].max()) if gaps.isfinite().any() else 0.0


@dataclass(frozen=True)
class TrueError:
    """How far given numbers are from the true ones, at most, in units of the last place of their dtype.

    Attributes:
        output: a unit is the spacing of floats at Σ_j w_j·|v_j|, the size of what is added up: a sum that cancels is not
            blamed for it.
        lse: a unit is the spacing at |lse|, or at 1 where that is smaller.
        at: (batch row, head, query) of the worst output.
    """

    output: float
    lse: float | None
    at: tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class Certificate:
    """Rows with everything about them enclosed.

    Attributes:
        rows: (batch row, head, query) of each.
        bits: of the ball arithmetic.
    """

    rows: tuple[tuple[int, int, int], ...]
    bits: int
    _masses: list[dict[int, arb]]
    _inverse: list[arb]
    _lse: list[arb]
    _output: arb_mat
    _size: Float[Tensor, "n E"]
    _keys: int

    @cached_property
    def output(self) -> Enclosure:
        """What the head says in each row, [n, E]."""
        return _outward([row(self._output, index) for index in range(self._output.nrows())], self._output.ncols())

    @cached_property
    def lse(self) -> Enclosure:
        """Of each row, with the sink, [n]."""
        found = _outward([[number] for number in self._lse], 1)
        return Enclosure(found.low[:, 0], found.high[:, 0])

    @cached_property
    def weights(self) -> Enclosure:
        """Of each row, [n, S]; exactly 0 where hidden."""
        with precision(self.bits):
            none = arb(0)
            shares = [
                [mass[key] * inverse if key in mass else none for key in range(self._keys)] for mass, inverse in zip(self._masses, self._inverse, strict=True)
            ]
        return _outward(shares, self._keys)

    def error(self, attended: Attended | Float[Tensor, "B H T E"]) -> TrueError:
        """The largest error of these rows in what an implementation gave: an `Attended`, or an output [B, H, T, E].

        Raises:
            ShapeError: the output has no such rows.
            ArgumentTypeError: it is no tensor.
        """
        if not isinstance(attended, Attended | Tensor):
            raise ArgumentTypeError(f"attended must be what attend gives or a tensor [B, H, T, E], got {type(attended).__name__}. Pass torch.as_tensor of it.")
        output, lse = (attended.output, attended.lse) if isinstance(attended, Attended) else (attended, None)
        self._fits(output)
        given = torch.stack([output[place] for place in self.rows]) if self.rows else output.new_zeros(0, self._output.ncols())
        unit = spacing(self._size, output.dtype)
        with precision(self.bits):
            off = [[_above(true - arb(float(x))) for true, x in zip(row(self._output, n), numbers, strict=True)] for n, numbers in enumerate(given)]
            ulps = torch.tensor(off, dtype=torch.float64).reshape(given.shape) / unit
            of_lse = None if lse is None else max((_lse_error(true, lse[place]) for true, place in zip(self._lse, self.rows, strict=True)), default=0.0)
        ulps = ulps.nan_to_num(nan=math.inf)
        if not ulps.numel():
            return TrueError(0.0, of_lse, None)
        worst = int(ulps.flatten().argmax())
        return TrueError(float(ulps.flatten()[worst]), of_lse, self.rows[worst // ulps.shape[1]])

    def _fits(self, output: Tensor) -> None:
        reach = [max((place[axis] for place in self.rows), default=-1) for axis in range(3)]
        if output.dim() != 4 or output.shape[3] != self._output.ncols() or any(at >= have for at, have in zip(reach, output.shape, strict=False)):
            raise ShapeError(f"output must be [B, H, T, {self._output.ncols()}] and hold the certified rows, got {list(output.shape)}. Pass the whole output.")


def certify(
    query: Query, key: Key, value: Value, *, rows: int | Sequence[tuple[int, int, int]] = 64, heads: int = 1, bits: int = BITS, **options: Any
) -> Certificate:
    """Enclose chosen rows of an attention from the exact values of the floats given: 64 rows of 4,096 keys in a second or two.

    Rows are chosen by rule: `heads` pairs of batch row and head, evenly spaced over all pairs from the first to the last,
    and in each `rows / heads` queries, evenly spaced from the first to the last.

    Args:
        query: [B, H, T, D], as for `attend`.
        key: [B, G, S, D].
        value: [B, G, S, E].
        rows: how many, or which: (batch row, head, query) of each.
        heads: over how many pairs of batch row and head to spread them; each costs another reading of its keys.
        bits: of the ball arithmetic.
        options: what `attend` takes and changes the result: causal, query_offset, window, mask, bias, scale, softcap, sink.

    Raises:
        ArgumentError: rows that do not exist, an option that is none or no number, too few bits, numbers that are not finite in what is seen.
        ArgumentTypeError: what is no tensor.
        ShapeError: tensors that do not fit together.

    References:
        Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic".

    Example:
        >>> q = k = v = torch.tensor([[[[1.0], [2.0]]]])
        >>> found = certify(q, k, v, causal=True)
        >>> [round(weight, 15) for weight in found.weights.low[1].tolist()], found.output.width < 1e-15
        ([0.119202922022118, 0.880797077977882], True)
    """
    if bits < LEAST_BITS:
        raise ArgumentError(f"bits must be at least {LEAST_BITS}, got {bits}. {BITS} are enough for most.")
    problem = _problem(query, key, value, options)
    places = _places(rows, heads, problem.shape)
    masses, inverses, lses, outputs, sizes = [], [], [], [], []
    with precision(bits):
        for batch, head in dict.fromkeys(place[:2] for place in places):
            queries = [place[2] for place in places if place[:2] == (batch, head)]
            part = _rows_of(problem, batch, head, torch.tensor(queries))
            found = _enclosed(part)
            for whole, new in zip((masses, inverses, lses, outputs, sizes), found, strict=True):
                whole.extend(new)
    order = [place for pair in dict.fromkeys(place[:2] for place in places) for place in places if place[:2] == pair]
    width = value.shape[3]
    said = arb_mat(len(outputs), width, [number for numbers in outputs for number in numbers])
    size = torch.stack(sizes) if sizes else torch.zeros(0, width, dtype=torch.float64)
    return Certificate(tuple(order), bits, masses, inverses, lses, said, size, key.shape[2])


def _problem(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]) -> Problem:
    known = ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "sink")
    strange = [name for name in options if name not in known]
    if strange:
        raise ArgumentError(f"options must be among {', '.join(known)}, got {strange[0]!r}. Leave it out: it does not change the result.")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(f"{name} must be a tensor, got {type(tensor).__name__}. Pass torch.as_tensor of it.")
    apart = query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or key.shape[1] == 0 or query.shape[1] % key.shape[1]
    if apart or query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3] or key.shape[:3] != value.shape[:3]:
        raise ShapeError(
            f"query, key and value must be [B, H, T, D], [B, G, S, D] and [B, G, S, E], got {[list(x.shape) for x in (query, key, value)]}. See attend."
        )
    scale, softcap = options.get("scale"), options.get("softcap")
    if scale is not None and not math.isfinite(scale):
        raise ArgumentError(f"scale must be a finite number, got {scale}. Leave it out for 1/√D.")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise ArgumentError(f"softcap must be a positive number, got {softcap}. Leave it out for none.")
    return Problem(query.detach(), key.detach(), value.detach(), **options)


def _places(rows: int | Sequence[tuple[int, int, int]], heads: int, shape: tuple[int, int, int, int]) -> list[tuple[int, int, int]]:
    batch, count, queries, _ = shape
    if isinstance(rows, str) or (not isinstance(rows, int) and any(isinstance(at, float) for place in rows for at in place)):
        raise ArgumentError(f"rows must be a number, or (batch row, head, query) of each, got {rows!r}. Count from 0, in whole numbers.")
    if not isinstance(rows, int):
        places = [(int(b), int(h), int(t)) for b, h, t in rows]
        wrong = [place for place in places if not all(0 <= at < have for at, have in zip(place, shape, strict=False))]
        if wrong:
            raise ArgumentError(f"rows must lie within [batch, heads, queries] = {[batch, count, queries]}, got {wrong[0]}. Count from 0.")
        return places
    if rows < 1 or heads < 1:
        raise ArgumentError(f"rows and heads must be at least 1, got {rows} and {heads}. Ask for 64 rows of 1 head, say.")
    pairs = _spread(batch * count, min(heads, rows))
    return [(pair // count, pair % count, t) for pair in pairs for t in _spread(queries, max(rows // max(len(pairs), 1), 1))]


def _spread(length: int, count: int) -> list[int]:
    """So many of `length` places, evenly, with both ends."""
    count = min(count, length)
    return [] if count == 0 else [0] if count == 1 else [round(index * (length - 1) / (count - 1)) for index in range(count)]


def _rows_of(problem: Problem, batch: int, head: int, queries: Int[Tensor, " n"]) -> Problem:
    """Some queries of one head, each as a batch row of its own: a query, all keys."""
    n, group = len(queries), head // (problem.query.shape[1] // problem.key.shape[1])
    keys = problem.key.shape[2]
    offset = keys - problem.query.shape[2] if problem.query_offset is None else problem.query_offset
    start = int(torch.as_tensor(offset).expand(problem.query.shape[0])[batch])

    def cut(plane: Tensor | None) -> Tensor | None:
        return None if plane is None else plane.expand(problem.shape)[batch, head, queries][:, None, None]

    return problem.replace(
        query=problem.query[batch, head, queries][:, None, None],
        key=problem.key[batch, group].expand(n, 1, keys, -1),
        value=problem.value[batch, group].expand(n, 1, keys, -1),
        query_offset=start + queries,
        mask=cut(problem.mask),
        bias=cut(problem.bias),
        sink=None if problem.sink is None else problem.sink[head : head + 1],
    )


def _enclosed(part: Problem) -> tuple[list[dict[int, arb]], list[arb], list[arb], list[list[arb]], list[Tensor]]:
    """Masses e^s, one over their sum, lse and output of each row, and the size of what its output adds up."""
    seen = part.visible()[:, 0, 0]
    used = seen.any(0).nonzero()[:, 0]
    q, k, v = part.query[:, 0, 0], part.key[0, 0, used], part.value[0, 0, used]
    added = [] if part.bias is None else [part.bias[:, 0, 0][seen]]
    if not all(bool(x.isfinite().all()) for x in (q, k, v, *added)):
        raise ArgumentError("query, and the keys, values and bias that it sees, must be finite, got NaN or inf. Choose other rows.")

    lines = _scores(part, enclose(q), enclose(k.T.contiguous()), used) if len(used) else [[] for _ in q]
    places = used.tolist()
    visible = seen[:, used].tolist()
    kept = [[score.exp() if see else arb(0) for score, see in zip(line, view, strict=True)] for line, view in zip(lines, visible, strict=True)]
    sink = arb(0) if part.sink is None else arb(float(part.sink[0])).exp()
    totals = [sum(line, sink) for line in kept]
    said = (arb_mat(kept) * enclose(v.contiguous())).tolist() if len(used) else arb_mat(len(q), v.shape[1]).tolist()
    inverses = [arb(0) if total.is_zero() else 1 / total for total in totals]
    lses = [arb.neg_inf() if total.is_zero() else total.log() for total in totals]
    masses = [dict(zip(places, line, strict=True)) for line in kept]
    said = [[number * inverse for number in line] for line, inverse in zip(said, inverses, strict=True)]
    near = [[float(mass * inverse) for mass in line] for line, inverse in zip(kept, inverses, strict=True)]
    sizes = torch.tensor(near, dtype=torch.float64).reshape(len(kept), len(used)) @ v.double().abs()  # the unit of the error: it needs no proof
    return masses, inverses, lses, said, list(sizes)


def _scores(part: Problem, q: arb_mat, k: arb_mat, used: Int[Tensor, " used"]) -> list[list[arb]]:
    """What the softmax would see of each row and key: scale, cap, bias."""
    scale = arb(part.query.shape[3]).rsqrt() if part.scale is None else arb(float(part.scale))
    lines = (q * k * scale).tolist()
    if part.softcap is not None:
        cap = arb(float(part.softcap))
        lines = [[(score / cap).tanh() * cap for score in line] for line in lines]
    if part.bias is not None:
        bias = part.bias[:, 0, 0, used].double().nan_to_num(0, 0, 0).tolist()  # -inf hides: its score is not used
        lines = [[score + arb(extra) for score, extra in zip(line, extras, strict=True)] for line, extras in zip(lines, bias, strict=True)]
    return lines


def _outward(numbers: Sequence[Sequence[arb]], width: int) -> Enclosure:
    low = [[math.nextafter(float(x.lower()), -math.inf) if not x.is_exact() else float(x) for x in line] for line in numbers]
    high = [[math.nextafter(float(x.upper()), math.inf) if not x.is_exact() else float(x) for x in line] for line in numbers]
    return Enclosure(*(torch.tensor(side, dtype=torch.float64).reshape(len(numbers), width) for side in (low, high)))


def _above(gap: arb) -> float:
    """At least |gap|; NaN where the number given was none."""
    return math.nextafter(float(gap.abs_upper()), math.inf) if not gap.is_zero() else 0.0


def _lse_error(true: arb, given: Tensor) -> float:
    if not true.is_finite() or not bool(given.isfinite()):
        return 0.0 if float(true) == float(given) else math.inf
    unit = spacing(torch.tensor(max(abs(float(true.mid())), 1.0), dtype=torch.float64), given.dtype)
    return _above(true - arb(float(given))) / float(unit)


def spacing(size: Float[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """The distance between neighbouring floats of a dtype around numbers of this size."""
    info = torch.finfo(dtype)
    return torch.exp2(torch.floor(torch.log2(size.clamp(min=info.tiny)))) * info.eps
