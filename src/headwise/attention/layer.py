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

from headwise.attention.attend import Window, compute, make_call
from headwise.attention.call import Call, accumulation_dtype
from headwise.attention.dense import cap_and_bias, dot_product, softmax, visible_plane, weighted_sum
from headwise.attention.kv_cache import KVCache
from headwise.attention.mask import positions
from headwise.attention.position import NOPE, PositionEncoding, add_position_bias
from headwise.attention.projections import concat_heads, head_writes, project, project_output, sum_heads
from headwise.attention.shape_checks import check_inputs, check_params
from headwise.axes import Bool, Float, Key, Output, Query, Rows, Sink, Tensor, Value, Weights
from headwise.deprecation import warn
from headwise.errors import ArgumentError, ArgumentTypeError


@dataclass(frozen=True, eq=False)
class LayerParams:
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
        check_params(vars(self))


@dataclass(frozen=True, eq=False)
class LayerConfig:
    """How a layer goes from q, k and v to z, the same at every call. The words are those of `attend`.

    Attributes:
        position: how queries and keys know where they stand.
        dropout: share of the weights that is dropped now; 0 outside training.
    """

    causal: bool = False
    window: Window | None = None
    scale: float | None = None
    softcap: float | None = None
    position: PositionEncoding = NOPE
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.position, PositionEncoding):
            raise ArgumentTypeError(f"position must be a Rotary, an Alibi or RelativeBuckets, got {self.position!r}. Make one: hw.Rotary().")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float):
            raise ArgumentTypeError(f"dropout must be a number, got {self.dropout!r}. It is the share of the weights that is dropped.")
        if not 0 <= self.dropout <= 1:
            raise ArgumentError(f"dropout must lie between 0 and 1, got {self.dropout}. It is the share of the weights that is dropped.")


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """What comes with one call, beside x.

    Attributes:
        context: what x looks at, when not at itself.
        past: keys and values of earlier tokens; those of this call are appended.
        mask, bias, query_offset: as in `attend`.
    """

    context: Float[Tensor, "B N C"] | None = None
    past: KVCache | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    query_offset: int | Sequence[int] | Tensor | None = None


DEFAULT_CONFIG = LayerConfig()
SELF_ATTENTION = LayerInputs()


@dataclass(frozen=True, eq=False)
class Trace:
    """Every tensor of the path, by name.

    Attributes:
        x: who asks.
        context: who is asked; x itself in self-attention.
        q, k, v: what each head asks, offers and says, positions taken in; k and v begin with those of the past.
        visible: True where a query may see a key.
        scores: as the softmax sees them, after cap and bias; -inf where hidden.
        weights: of each row; exactly 0 where hidden.
        sink: what a row gives to no key; 0 without a sink.
        dropout_mask: what dropout multiplied the weights by, 0 or 1 / (1 - dropout); None without.
        z: what each head says.
        writes: what each head adds to the output.
        out: the sum of writes, and the output's bias.
    """

    x: Float[Tensor, "B T M"]
    context: Float[Tensor, "B N C"]
    q: Query
    k: Key
    v: Value
    visible: Bool[Tensor, "#B #H T S"]
    scores: Weights
    weights: Weights
    sink: Rows
    dropout_mask: Weights | None
    z: Output
    writes: Float[Tensor, "B H T M"]
    out: Float[Tensor, "B T M"]

    @property
    def concat(self) -> Float[Tensor, "B T HE"]:
        """The outputs z of all heads side by side, as w_o reads them."""
        return concat_heads(self.z)

    @property
    def seen(self) -> Bool[Tensor, "#B #H T S"]:
        """Deprecated: `visible`."""
        warn("Trace.seen", "visible")
        return self.visible

    @property
    def kept(self) -> Weights | None:
        """Deprecated: `dropout_mask`."""
        warn("Trace.kept", "dropout_mask")
        return self.dropout_mask


@dataclass(frozen=True, eq=False)
class LayerOutput:
    """What the short cut gives back: the output, and the keys and values to be passed on as `past`."""

    out: Float[Tensor, "B T M"]
    cache: KVCache


def project_qkv(
    x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig = DEFAULT_CONFIG, inputs: LayerInputs = SELF_ATTENTION
) -> tuple[Query, Key, Value, Call]:
    """Where both ways begin: what every head asks, what it may look at, and the call that follows from the rules.

    Raises:
        ShapeError: x, context, past, mask or bias do not fit together.
        ArgumentError, ArgumentTypeError: as `attend` raises them.
    """
    check_inputs(x, inputs.context, params.w_q, params.w_k)
    answers = x if inputs.context is None else inputs.context
    q = project(x, params.w_q, params.b_q)  # M1
    k = project(answers, params.w_k, params.b_k)
    v = project(answers, params.w_v, params.b_v)

    start = 0 if inputs.past is None else inputs.past.length
    k = config.position.rotate(k, torch.arange(start, start + k.shape[2], device=k.device)[None])
    known = KVCache(k, v) if inputs.past is None else inputs.past.append(k, v)

    call = make_call(q, known.k, config.causal, inputs.query_offset, config.window, inputs.mask, inputs.bias, config.scale, config.softcap, params.sink)
    position_bias = config.position.bias(call.offset, q.shape[1], accumulation_dtype(q.dtype))
    call = replace(call, bias=add_position_bias(call.bias, position_bias, q.shape[2], known.length))
    return config.position.rotate(q, positions(call, q.shape[2])), known.k, known.v, call


def trace(x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig = DEFAULT_CONFIG, inputs: LayerInputs = SELF_ATTENTION) -> Trace:
    """Walk the path and keep every tensor of it. Memory grows with T × S: for looking, and for training with dropout.

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> path = trace(torch.ones(1, 3, 4), LayerParams(ones, ones, ones, torch.ones(2, 2, 4)), LayerConfig(causal=True))
        >>> [[round(weight, 2) for weight in row] for row in path.weights[0, 1].tolist()]
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """
    q, k, v, call = project_qkv(x, params, config, inputs)

    visible = visible_plane(call, q.shape[2], k.shape[2])
    scores = cap_and_bias(dot_product(q, k, visible) * call.scale, call, visible)
    weights, sink = softmax(scores, call.sink)  # M2
    dropout_mask = torch.dropout(torch.ones_like(weights), config.dropout, train=True) if config.dropout else None
    z = weighted_sum(weights if dropout_mask is None else weights * dropout_mask, v, visible)

    writes = head_writes(z, params.w_o)  # M3
    out = sum_heads(writes, params.b_o)
    return Trace(x, x if inputs.context is None else inputs.context, q, k, v, visible, scores, weights, sink, dropout_mask, z, writes, out)


def forward(x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig = DEFAULT_CONFIG, inputs: LayerInputs = SELF_ATTENTION) -> LayerOutput:
    """The same output in memory that grows with the length and not with its square (but for dropout, which needs the weights).

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> passed = forward(torch.ones(1, 3, 4), LayerParams(ones, ones, ones, torch.ones(2, 2, 4)), LayerConfig(causal=True))
        >>> list(passed.out.shape), passed.cache.length
        ([1, 3, 4], 3)
    """
    if config.dropout:
        path = trace(x, params, config, inputs)
        return LayerOutput(path.out, KVCache(path.k, path.v))
    q, k, v, call = project_qkv(x, params, config, inputs)

    z = compute(q, k, v, call).output

    return LayerOutput(project_output(z, params.w_o, params.b_o), KVCache(k, v))
