"""`certify`: a proved bound on the error of an attention's results, in units in the last place (ulp).

Floats are rational numbers. Starting from them, the scores, weights, log-sum-exp (lse) and output of a row are enclosed by
ball arithmetic: intervals that contain the true value whatever was rounded on the way. The error of an implementation is
then known, not estimated from another floating-point result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from flint import arb, arb_mat

from headwise.attention.attend import Window
from headwise.attention.call import Attended
from headwise.axes import Float, Int, Key, Query, Tensor, Value
from headwise.conformance.exact.ball_arithmetic import BITS, enclose, precision, row
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError, ArgumentTypeError, ShapeError

LEAST_BITS = 53  # float64 itself has 53: with fewer, the inputs are not represented exactly


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Numbers known to lie between `low` and `high`, in float64, rounded outwards."""

    low: Float[Tensor, "..."]
    high: Float[Tensor, "..."]

    @property
    def width(self) -> float:
        """The width of the widest interval; at best the distance between two neighbouring float64 numbers."""
        widths = (self.high - self.low).flatten()
        return float(widths[widths.isfinite()].max()) if widths.isfinite().any() else 0.0


@dataclass(frozen=True)
class TrueError:
    """An upper bound on the distance of given results from the true ones, in units in the last place of their dtype.

    Attributes:
        output: the unit is the spacing of floats at Σ_j w_j·|v_j|, the magnitude of the terms: cancellation in the sum does
            not enlarge the error.
        lse: the unit is the spacing at |lse|, or at 1 if |lse| is smaller.
        at: (batch row, head, query) of the largest error of the output.
    """

    output: float
    lse: float | None
    at: tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class Certificate:
    """Enclosures of the weights, lse and output of chosen rows.

    Attributes:
        rows: (batch row, head, query) of each row.
        bits: precision of the ball arithmetic.
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
        """Output of the head in each row, [n, E]."""
        return _outward([row(self._output, index) for index in range(self._output.nrows())], self._output.ncols())

    @cached_property
    def lse(self) -> Enclosure:
        """Log-sum-exp of each row, including the sink, [n]."""
        found = _outward([[number] for number in self._lse], 1)
        return Enclosure(found.low[:, 0], found.high[:, 0])

    @cached_property
    def weights(self) -> Enclosure:
        """Weights of each row, [n, S]; exactly 0 at hidden keys."""
        with precision(self.bits):
            zero = arb(0)
            shares = [
                [mass[key] * inverse if key in mass else zero for key in range(self._keys)] for mass, inverse in zip(self._masses, self._inverse, strict=True)
            ]
        return _outward(shares, self._keys)

    def error(self, attended: Attended | Float[Tensor, "B H T E"]) -> TrueError:
        """Bound the error of an implementation over these rows, given its `Attended` or its output [B, H, T, E].

        Raises:
            ShapeError: the output does not contain the certified rows.
            ArgumentTypeError: the argument is neither an `Attended` nor a tensor.
        """
        if not isinstance(attended, Attended | Tensor):
            raise ArgumentTypeError(
                f"attended must be the result of attend or a tensor [B, H, T, E], got {type(attended).__name__}. Convert it with torch.as_tensor."
            )
        output, lse = (attended.output, attended.lse) if isinstance(attended, Attended) else (attended, None)
        self._require_rows(output)
        given = torch.stack([output[place] for place in self.rows]) if self.rows else output.new_zeros(0, self._output.ncols())
        unit = spacing(self._size, output.dtype)
        with precision(self.bits):
            errors = [[_upper_bound(true - arb(float(x))) for true, x in zip(row(self._output, n), numbers, strict=True)] for n, numbers in enumerate(given)]
            ulps = torch.tensor(errors, dtype=torch.float64).reshape(given.shape) / unit
            lse_error = None if lse is None else max((_lse_error(true, lse[place]) for true, place in zip(self._lse, self.rows, strict=True)), default=0.0)
        ulps = ulps.nan_to_num(nan=math.inf)
        if not ulps.numel():
            return TrueError(0.0, lse_error, None)
        worst = int(ulps.flatten().argmax())
        return TrueError(float(ulps.flatten()[worst]), lse_error, self.rows[worst // ulps.shape[1]])

    def _require_rows(self, output: Tensor) -> None:
        last = [max((place[axis] for place in self.rows), default=-1) for axis in range(3)]
        if output.dim() != 4 or output.shape[3] != self._output.ncols() or any(at >= have for at, have in zip(last, output.shape, strict=False)):
            raise ShapeError(
                f"output must be [B, H, T, {self._output.ncols()}] and contain the certified rows, got {list(output.shape)}. Pass the whole output."
            )


def certify(
    query: Query,
    key: Key,
    value: Value,
    *,
    rows: int | Sequence[tuple[int, int, int]] = 64,
    heads: int = 1,
    bits: int = BITS,
    causal: bool = False,
    query_offset: int | Sequence[int] | Tensor | None = None,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> Certificate:
    """Enclose chosen rows of an attention, computed from the exact values of the given floats.

    A number of rows is distributed evenly: `heads` pairs of batch row and head, spaced from the first pair to the last, and
    in each pair `rows / heads` queries, spaced from the first to the last. 64 rows of 4,096 keys take a second or two.

    Args:
        query: [B, H, T, D], as for `attend`.
        key: [B, G, S, D].
        value: [B, G, S, E].
        rows: how many rows, or which: (batch row, head, query) of each.
        heads: the number of pairs of batch row and head to distribute the rows over; each pair encloses its keys again.
        bits: precision of the ball arithmetic.
        causal: as for `attend`, like the arguments that follow.
        query_offset: position of the first query.
        window: number of visible keys.
        mask: broadcastable to [B, H, T, S], True where the query may attend.
        bias: broadcastable to [B, H, T, S], added to the scores.
        scale: factor of the scores; 1/√D if None.
        softcap: bound of the scores, by cap·tanh(score / cap).
        sink: [H], one more score in each row's softmax, without a value.

    Raises:
        ArgumentError: a row that does not exist, a scale or softcap that is not a usable number, too few bits, or visible
            inputs that are not finite.
        ArgumentTypeError: query, key or value is not a tensor.
        ShapeError: the tensors do not match each other.

    References:
        Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic".

    Example:
        >>> q = k = v = torch.tensor([[[[1.0], [2.0]]]])
        >>> found = certify(q, k, v, causal=True)
        >>> [round(weight, 15) for weight in found.weights.low[1].tolist()], found.output.width < 1e-15
        ([0.119202922022118, 0.880797077977882], True)
    """
    if bits < LEAST_BITS:
        raise ArgumentError(f"bits must be at least {LEAST_BITS}, got {bits}. {BITS} suffice for most uses.")
    _require_inputs(query, key, value, scale, softcap)
    problem = Problem(
        query.detach(),
        key.detach(),
        value.detach(),
        causal=causal,
        query_offset=query_offset,
        window=window,
        mask=mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        sink=sink,
    )
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
    output = arb_mat(len(outputs), width, [number for numbers in outputs for number in numbers])
    size = torch.stack(sizes) if sizes else torch.zeros(0, width, dtype=torch.float64)
    return Certificate(tuple(order), bits, masses, inverses, lses, output, size, key.shape[2])


def _require_inputs(query: Tensor, key: Tensor, value: Tensor, scale: float | None, softcap: float | None) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(f"{name} must be a tensor, got {type(tensor).__name__}. Convert it with torch.as_tensor.")
    mismatched = query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or key.shape[1] == 0 or query.shape[1] % key.shape[1]
    if mismatched or query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3] or key.shape[:3] != value.shape[:3]:
        raise ShapeError(
            f"query, key and value must be [B, H, T, D], [B, G, S, D] and [B, G, S, E], got {[list(x.shape) for x in (query, key, value)]}. See attend."
        )
    if scale is not None and not math.isfinite(scale):
        raise ArgumentError(f"scale must be a finite number, got {scale}. Leave it out for 1/√D.")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise ArgumentError(f"softcap must be a positive number, got {softcap}. Leave it out for none.")


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
    """`count` indices out of `length`, evenly spaced, including both ends."""
    count = min(count, length)
    return [] if count == 0 else [0] if count == 1 else [round(index * (length - 1) / (count - 1)) for index in range(count)]


def _rows_of(problem: Problem, batch: int, head: int, queries: Int[Tensor, " n"]) -> Problem:
    """Some queries of one head, each as its own batch row with one query and all keys."""
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
    """Masses e^s, the inverse of their sum, lse and output of each row, and the magnitude of the terms of its output."""
    visible = part.visible()[:, 0, 0]
    used = visible.any(0).nonzero()[:, 0]
    q, k, v = part.query[:, 0, 0], part.key[0, 0, used], part.value[0, 0, used]
    added = [] if part.bias is None else [part.bias[:, 0, 0][visible]]
    if not all(bool(x.isfinite().all()) for x in (q, k, v, *added)):
        raise ArgumentError("query, and the keys, values and bias visible to it, must be finite, got NaN or inf. Choose other rows.")

    lines = _scores(part, enclose(q), enclose(k.T.contiguous()), used) if len(used) else [[] for _ in q]
    places = used.tolist()
    allowed_keys = visible[:, used].tolist()
    exponentials = [
        [score.exp() if allowed else arb(0) for score, allowed in zip(line, view, strict=True)] for line, view in zip(lines, allowed_keys, strict=True)
    ]
    sink = arb(0) if part.sink is None else arb(float(part.sink[0])).exp()
    totals = [sum(line, sink) for line in exponentials]
    outputs = (arb_mat(exponentials) * enclose(v.contiguous())).tolist() if len(used) else arb_mat(len(q), v.shape[1]).tolist()
    inverses = [arb(0) if total.is_zero() else 1 / total for total in totals]
    lses = [arb.neg_inf() if total.is_zero() else total.log() for total in totals]
    masses = [dict(zip(places, line, strict=True)) for line in exponentials]
    outputs = [[number * inverse for number in line] for line, inverse in zip(outputs, inverses, strict=True)]
    weights = [[float(mass * inverse) for mass in line] for line, inverse in zip(exponentials, inverses, strict=True)]
    sizes = (
        torch.tensor(weights, dtype=torch.float64).reshape(len(exponentials), len(used)) @ v.double().abs()
    )  # only the unit of the error: needs no enclosure
    return masses, inverses, lses, outputs, list(sizes)


def _scores(part: Problem, q: arb_mat, k: arb_mat, used: Int[Tensor, " used"]) -> list[list[arb]]:
    """Scores of each row and key before the softmax: scaled, capped, with the bias added."""
    scale = arb(part.query.shape[3]).rsqrt() if part.scale is None else arb(float(part.scale))
    lines = (q * k * scale).tolist()
    if part.softcap is not None:
        cap = arb(float(part.softcap))
        lines = [[(score / cap).tanh() * cap for score in line] for line in lines]
    if part.bias is not None:
        bias = part.bias[:, 0, 0, used].double().nan_to_num(0, 0, 0).tolist()  # -inf hides the key: its score is not used
        lines = [[score + arb(extra) for score, extra in zip(line, extras, strict=True)] for line, extras in zip(lines, bias, strict=True)]
    return lines


def _outward(numbers: Sequence[Sequence[arb]], width: int) -> Enclosure:
    low = [[math.nextafter(float(x.lower()), -math.inf) if not x.is_exact() else float(x) for x in line] for line in numbers]
    high = [[math.nextafter(float(x.upper()), math.inf) if not x.is_exact() else float(x) for x in line] for line in numbers]
    return Enclosure(*(torch.tensor(side, dtype=torch.float64).reshape(len(numbers), width) for side in (low, high)))


def _upper_bound(difference: arb) -> float:
    """A float not below |difference|; NaN if the given number was NaN."""
    return math.nextafter(float(difference.abs_upper()), math.inf) if not difference.is_zero() else 0.0


def _lse_error(true: arb, given: Tensor) -> float:
    if not true.is_finite() or not bool(given.isfinite()):
        return 0.0 if float(true) == float(given) else math.inf
    unit = spacing(torch.tensor(max(abs(float(true.mid())), 1.0), dtype=torch.float64), given.dtype)
    return _upper_bound(true - arb(float(given))) / float(unit)


def spacing(size: Float[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Return the distance between neighbouring floats of a dtype at numbers of this magnitude."""
    info = torch.finfo(dtype)
    return torch.exp2(torch.floor(torch.log2(size.clamp(min=info.tiny)))) * info.eps
