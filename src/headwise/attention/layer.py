"""Multi-head attention, one step at a time. Start reading here.

    q, k, v  = x·W_q, x·W_k, x·W_v     M1  every head projects x with its own slices of the matrices
    scores   = scale · q·kᵀ                -inf where a key is hidden from a query
    weights  = softmax(scores)         M2  a distribution over keys for each query
    z        = weights · v                 the output of each head
    writes   = z · W_o[head]           M3  what each head adds to the output
    out      = Σ_heads writes              equal to concat(z) · W_o

With one head this is single-head attention, and each head alone is single-head attention on its own slices (M4). Heads meet
only in the sum, so they can attend to different positions (M5), and each can be analysed, changed or removed alone.

`trace` returns every tensor of these steps. `forward` returns the same `out` without a T × S tensor: a kernel computes z, and
W_o is applied once.

References: Vaswani et al. 2017, section 3.2. Heads as a sum: Elhage et al. 2021, "Attention heads are independent and additive".
Key heads shared by query heads: Ainslie et al. 2023.
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
    """The parameters of an attention layer, split by head. C is the width of the context: M in self-attention."""

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
    """The options of a layer, the same at every call. `causal`, `window`, `scale` and `softcap` are those of `attend`.

    Attributes:
        position: the position encoding of queries and keys.
        dropout: probability that a weight is dropped at this call; 0 outside training.
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
    """The arguments of one call besides x.

    Attributes:
        context: the tokens that keys and values are computed from; x itself when absent.
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
    """Every tensor of the computation, by name.

    Attributes:
        x: the tokens that attend.
        context: the tokens that are attended to; x itself in self-attention.
        q, k, v: of each head, with positions encoded; k and v begin with those of the cache.
        visible: True where a query may attend to a key.
        scores: what the softmax is taken of: scaled, capped, biased; -inf where hidden.
        weights: of each query over the keys; exactly 0 where hidden.
        sink: the weight of each query's sink; 0 without one.
        dropout_mask: the factor of each weight, 0 or 1 / (1 - dropout); None without dropout.
        z: the output of each head.
        writes: what each head adds to the output.
        out: the sum of the writes, plus the output bias.
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
        """The outputs z of all heads side by side: what W_o is applied to."""
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
    """The output of `forward`, and the keys and values to pass as `past` of the next call."""

    out: Float[Tensor, "B T M"]
    cache: KVCache


def trace(x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig = DEFAULT_CONFIG, inputs: LayerInputs = SELF_ATTENTION) -> Trace:
    """Compute the layer step by step and return every tensor. Memory grows with T × S.

    Raises:
        ShapeError: x, context, past, mask or bias do not fit together.
        ArgumentError, ArgumentTypeError: as `attend` raises them.

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> path = trace(torch.ones(1, 3, 4), LayerParams(ones, ones, ones, torch.ones(2, 2, 4)), LayerConfig(causal=True))
        >>> [[round(weight, 2) for weight in row] for row in path.weights[0, 1].tolist()]
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """
    q, k, v, call = project_qkv(x, params, config, inputs)  # M1

    visible = visible_plane(call, q.shape[2], k.shape[2])
    scores = cap_and_bias(dot_product(q, k, visible) * call.scale, call, visible)
    weights, sink = softmax(scores, call.sink)  # M2
    dropout_mask = torch.dropout(torch.ones_like(weights), config.dropout, train=True) if config.dropout else None
    z = weighted_sum(weights if dropout_mask is None else weights * dropout_mask, v, visible)

    writes = head_writes(z, params.w_o)  # M3
    out = sum_heads(writes, params.b_o)
    return Trace(x, x if inputs.context is None else inputs.context, q, k, v, visible, scores, weights, sink, dropout_mask, z, writes, out)


def forward(x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig = DEFAULT_CONFIG, inputs: LayerInputs = SELF_ATTENTION) -> LayerOutput:
    """Compute the same output in memory that grows with the length, not with its square. (With dropout: as `trace` does.)

    Raises:
        ShapeError: x, context, past, mask or bias do not fit together.
        ArgumentError, ArgumentTypeError: as `attend` raises them.

    Example:
        >>> ones = torch.ones(4, 2, 2)
        >>> found = forward(torch.ones(1, 3, 4), LayerParams(ones, ones, ones, torch.ones(2, 2, 4)), LayerConfig(causal=True))
        >>> list(found.out.shape), found.cache.length
        ([1, 3, 4], 3)
    """
    if config.dropout:
        path = trace(x, params, config, inputs)
        return LayerOutput(path.out, KVCache(path.k, path.v))
    q, k, v, call = project_qkv(x, params, config, inputs)

    z = compute(q, k, v, call).output

    return LayerOutput(project_output(z, params.w_o, params.b_o), KVCache(k, v))


def project_qkv(x: Float[Tensor, "B T M"], params: LayerParams, config: LayerConfig, inputs: LayerInputs) -> tuple[Query, Key, Value, Call]:
    """Project x to queries, and the context to keys and values after those of the cache; encode positions; write the call down."""
    check_inputs(x, inputs.context, params.w_q, params.w_k)
    context = x if inputs.context is None else inputs.context
    q = project(x, params.w_q, params.b_q)
    k = project(context, params.w_k, params.b_k)
    v = project(context, params.w_v, params.b_v)

    start = 0 if inputs.past is None else inputs.past.length
    k = config.position.rotate(k, torch.arange(start, start + k.shape[2], device=k.device)[None])
    cache = KVCache(k, v) if inputs.past is None else inputs.past.append(k, v)

    call = make_call(q, cache.k, config.causal, inputs.query_offset, config.window, inputs.mask, inputs.bias, config.scale, config.softcap, params.sink)
    position_bias = config.position.bias(call.offset, q.shape[1], accumulation_dtype(q.dtype))
    call = replace(call, bias=add_position_bias(call.bias, position_bias, q.shape[2], cache.length))
    return config.position.rotate(q, positions(call, q.shape[2])), cache.k, cache.v, call
