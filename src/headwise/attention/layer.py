"""Multi-head attention from x to out, one name a step. Start reading here.

    q, k, v  = x · w_q, x · w_k, x · w_v     M1  every head reads x through slices of its own
    scores   = scale · q·kᵀ                      how well each key answers each query; -inf where it is hidden
    weights  = softmax(scores)               M2  what each query takes from each key: a row is 1 in all
    z        = weights · v                       what each head says
    writes   = z · w_o[head]                 M3  what each head adds to the output
    out      = Σ over heads of writes            the same as concat(z) · w_o

With one head this is single-head attention, and a head alone is just that (M4). Heads share nothing on the way, so that
they can look at different places (M5). Which is why a head can be read, weighed, changed or left out on its own.

`trace` walks this path and keeps every tensor. `forward` takes the short cut: `attend` never holds a T × S tensor, and
w_o is applied once. Both give the same out. Each step is a file: `project`, `position`, `materialise`, `combine`.

References: Vaswani et al. 2017, section 3.2; heads as a sum: Elhage et al. 2021, "Attention heads are independent and
additive"; key heads shared by query heads: Ainslie et al. 2023.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from headwise.attention.attend import Window, call_of, compute
from headwise.attention.call import Call, wide
from headwise.attention.dense import bend, dot, mix, seen_by, softmax
from headwise.attention.kv_cache import Cache
from headwise.attention.mask import positions
from headwise.attention.output import add_up, combine, concat, write
from headwise.attention.position import NOWHERE, Position, with_lean
from headwise.attention.project import project
from headwise.attention.shape_checks import input_fits, maps_fit
from headwise.axes import Bool, Float, Key, Output, Query, Rows, Sink, Tensor, Value, Weights
from headwise.errors import ArgumentError, ArgumentTypeError


@dataclass(frozen=True, eq=False)
class Learned:
    """What a layer has learned, split by head once and for all. C is the width of what it looks at: M in self-attention."""

    w_q: Float[Tensor, "M H D"]
    w_k: Float[Tensor, "C G D"]
    w_v: Float[Tensor, "C G E"]
    w_o: Float[Tensor, "H E M"]
    b_q: Float[Tensor, "H D"] | None = None
    b_k: Float[Tensor, "G D"] | None = None
    b_v: Float[Tensor, "G E"] | None = None
    b_o: Float[Tensor, " M"] | None = None
    sink: Sink | None = None

    def __post_init__(self) -> None:
        maps_fit(vars(self))


@dataclass(frozen=True, eq=False)
class Rules:
    """How a layer goes from q, k and v to z, the same at every call. The words are those of `attend`.

    Attributes:
        position: how queries and keys know where they stand.
        dropout: share of the weights that is dropped now; 0 outside training.
    """

    causal: bool = False
    window: Window | None = None
    scale: float | None = None
    softcap: float | None = None
    position: Position = NOWHERE
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.position, Position):
            raise ArgumentTypeError(f"position must be a Rotary, an Alibi or RelativeBuckets, got {self.position!r}. Make one: hw.Rotary().")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float):
            raise ArgumentTypeError(f"dropout must be a number, got {self.dropout!r}. It is the share of the weights that is dropped.")
        if not 0 <= self.dropout <= 1:
            raise ArgumentError(f"dropout must lie between 0 and 1, got {self.dropout}. It is the share of the weights that is dropped.")


@dataclass(frozen=True, eq=False)
class Given:
    """What comes with one call, beside x.

    Attributes:
        context: what x looks at, when not at itself.
        past: keys and values of earlier tokens; those of this call are appended.
        mask, bias, query_offset: as in `attend`.
    """

    context: Float[Tensor, "B N C"] | None = None
    past: Cache | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    query_offset: int | Sequence[int] | Tensor | None = None


AS_IS = Rules()
ALONE = Given()


@dataclass(frozen=True, eq=False)
class Trace:
    """Every tensor of the path, by name.

    Attributes:
        x: who asks.
        context: who is asked; x itself in self-attention.
        q, k, v: what each head asks, offers and says, positions taken in; k and v begin with those of the past.
        seen: True where a query may see a key.
        scores: as the softmax sees them, after cap and bias; -inf where hidden.
        weights: of each row; exactly 0 where hidden.
        sink: what a row gives to no key; 0 without a sink.
        kept: what dropout multiplied the weights by, 0 or 1 / (1 - dropout); None without.
        z: what each head says.
        writes: what each head adds to the output.
        out: the sum of writes, and the output's bias.
    """

    x: Float[Tensor, "B T M"]
    context: Float[Tensor, "B N C"]
    q: Query
    k: Key
    v: Value
    seen: Bool[Tensor, "#B #H T S"]
    scores: Weights
    weights: Weights
    sink: Rows
    kept: Weights | None
    z: Output
    writes: Float[Tensor, "B H T M"]
    out: Float[Tensor, "B T M"]

    @property
    def concat(self) -> Float[Tensor, "B T HE"]:
        """What all heads say, side by side, as w_o reads it."""
        return concat(self.z)


@dataclass(frozen=True, eq=False)
class Passed:
    """What the short cut gives back: the output, and the keys and values to be passed on as `past`."""

    out: Float[Tensor, "B T M"]
    cache: Cache


def ask(x: Float[Tensor, "B T M"], learned: Learned, rules: Rules = AS_IS, given: Given = ALONE) -> tuple[Query, Key, Value, Call]:
    """Where both ways begin: what every head asks, what it may look at, and the call that follows from the rules.

    Raises:
        ShapeError: x, context, past, mask or bias do not fit together.
        ArgumentError, ArgumentTypeError: as `attend` raises them.
    """
    input_fits(x, given.context, learned.w_q, learned.w_k)
    answers = x if given.context is None else given.context
    q = project(x, learned.w_q, learned.b_q)  # M1
    k = project(answers, learned.w_k, learned.b_k)
    v = project(answers, learned.w_v, learned.b_v)

    start = 0 if given.past is None else given.past.length
    k = rules.position.turn(k, torch.arange(start, start + k.shape[2], device=k.device)[None])
    known = Cache(k, v) if given.past is None else given.past.append(k, v)

    call = call_of(q, known.k, rules.causal, given.query_offset, rules.window, given.mask, given.bias, rules.scale, rules.softcap, learned.sink)
    lean = rules.position.bias(call.offset, q.shape[1], wide(q.dtype))
    call = replace(call, bias=with_lean(call.bias, lean, q.shape[2], known.length))
    return rules.position.turn(q, positions(call, q.shape[2])), known.k, known.v, call


def trace(x: Float[Tensor, "B T M"], learned: Learned, rules: Rules = AS_IS, given: Given = ALONE) -> Trace:
    """Walk the path and keep every tensor of it. Memory grows with T × S: for looking, and for training with dropout.

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> path = trace(torch.ones(1, 3, 4), Learned(ones, ones, ones, torch.ones(2, 2, 4)), Rules(causal=True))
        >>> [[round(weight, 2) for weight in row] for row in path.weights[0, 1].tolist()]
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """
    q, k, v, call = ask(x, learned, rules, given)

    seen = seen_by(call, q.shape[2], k.shape[2])
    scores = bend(dot(q, k, seen) * call.scale, call, seen)
    weights, sink = softmax(scores, call.sink)  # M2
    kept = torch.dropout(torch.ones_like(weights), rules.dropout, train=True) if rules.dropout else None
    z = mix(weights if kept is None else weights * kept, v, seen)

    writes = write(z, learned.w_o)  # M3
    out = add_up(writes, learned.b_o)
    return Trace(x, x if given.context is None else given.context, q, k, v, seen, scores, weights, sink, kept, z, writes, out)


def forward(x: Float[Tensor, "B T M"], learned: Learned, rules: Rules = AS_IS, given: Given = ALONE) -> Passed:
    """The same output in memory that grows with the length and not with its square (but for dropout, which needs the weights).

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> passed = forward(torch.ones(1, 3, 4), Learned(ones, ones, ones, torch.ones(2, 2, 4)), Rules(causal=True))
        >>> list(passed.out.shape), passed.cache.length
        ([1, 3, 4], 3)
    """
    if rules.dropout:
        path = trace(x, learned, rules, given)
        return Passed(path.out, Cache(path.k, path.v))
    q, k, v, call = ask(x, learned, rules, given)

    z = compute(q, k, v, call).output

    return Passed(combine(z, learned.w_o, learned.b_o), Cache(k, v))
