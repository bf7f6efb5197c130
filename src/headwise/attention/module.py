"""`MultiHeadAttention`: the layer as a torch module, trainable, with every intermediate tensor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, overload

import torch
from torch import nn

from headwise.attention import layer
from headwise.attention.attend import Window, make_call
from headwise.attention.kv_cache import KVCache
from headwise.attention.layer import LayerConfig, LayerInputs, LayerOutput, LayerParams, Trace
from headwise.attention.position import NOPE, PositionEncoding, RelativeBuckets
from headwise.attention.projections import split_in_proj, split_out_proj
from headwise.attention.shape_checks import divisors
from headwise.axes import Float, Tensor
from headwise.deprecation import warn
from headwise.errors import ArgumentError, ArgumentTypeError

PARAMS = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "sink")


class MultiHeadAttention(nn.Module):
    """Multi-head attention whose every intermediate tensor has a name.

    Parameters are split by head: `w_q [M, H, D]`, `w_k [C, G, D]`, `w_v [C, G, E]`, `w_o [H, E, M]`, `b_q`, `b_k`, `b_v`,
    `b_o`, and if requested `sink [H]` and `buckets [N, H]`; these are the keys of the state_dict. The computation is that of
    `headwise.attention.layer`, which the conformance tests verify.

    Args:
        d_model: M, the width of x and of the output.
        num_heads: H, the number of query heads.
        num_kv_heads: G, the number of key and value heads; head h reads key head h // (H // G). H when absent.
        head_dim: D, the width of a query or key; M / H when absent.
        value_dim: E, the width of a value; D when absent.
        context_dim: C, the width of the context in cross-attention; M when absent.
        bias: whether the projections have biases; "qkv" for all but the output.
        causal, window, softcap, scale: as in `hw.attend`.
        sink: learn the logit of an attention sink for each head; it starts at 0.
        position: a `Rotary`, an `Alibi`, or `RelativeBuckets`, whose table is then a parameter.
        dropout: probability that a weight is dropped in training, for each batch row, head, query and key on its own; the others
            are scaled up. Training with dropout materialises T × S weights; otherwise memory is linear in the length.
        batch_first: x is [B, T, M]; if False [T, B, M], and so are context and output. A trace is always batch first.

    Raises:
        ArgumentError: sizes that do not fit together, or an option that `hw.attend` refuses.
        ArgumentTypeError: a size that is not an integer.

    References:
        Vaswani et al. 2017, section 3.2. Initialisation: Glorot and Bengio 2010, for each matrix (torch initialises q, k and v as
        one matrix, and so with smaller values).

    Example:
        >>> attention = MultiHeadAttention(16, num_heads=4, num_kv_heads=2, causal=True)
        >>> path = attention.trace(torch.ones(1, 3, 16))
        >>> list(path.weights.shape), list(path.out.shape)
        ([1, 4, 3, 3], [1, 3, 16])
    """

    w_q: nn.Parameter
    w_k: nn.Parameter
    w_v: nn.Parameter
    w_o: nn.Parameter
    b_q: nn.Parameter | None
    b_k: nn.Parameter | None
    b_v: nn.Parameter | None
    b_o: nn.Parameter | None
    sink: nn.Parameter | None
    buckets: nn.Parameter | None

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        value_dim: int | None = None,
        context_dim: int | None = None,
        bias: bool | Literal["qkv"] = True,
        causal: bool = False,
        window: Window | None = None,
        softcap: float | None = None,
        scale: float | None = None,
        sink: bool = False,
        position: PositionEncoding | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        m, h = _size("d_model", d_model), _size("num_heads", num_heads)
        g = h if num_kv_heads is None else _size("num_kv_heads", num_kv_heads)
        if h % g:
            raise ArgumentError(f"num_kv_heads must divide num_heads, got {g} and {h}. Choose {divisors(h)}.")
        d = _width(m, h) if head_dim is None else _size("head_dim", head_dim)
        e = d if value_dim is None else _size("value_dim", value_dim)
        c = m if context_dim is None else _size("context_dim", context_dim)
        self.d_model, self.num_heads, self.num_kv_heads, self.head_dim, self.value_dim, self.context_dim = m, h, g, d, e, c
        for name, flag in (("sink", sink), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise ArgumentTypeError(f"{name} must be True or False, got {flag!r}. Pass one of them.")
        self.batch_first = batch_first
        device, dtype = _device(device), _float_dtype(dtype)

        shapes = _shapes(m, h, g, d, e, c, bias, sink)
        for name in PARAMS:
            shape = shapes.get(name)
            self.register_parameter(name, None if shape is None else nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.register_parameter("buckets", None)
        if isinstance(position, RelativeBuckets):
            self.buckets = nn.Parameter(position.table.detach().clone().to(self.w_q))
            position = replace(position, table=self.buckets)
        self._config = LayerConfig(causal, window, scale, softcap, NOPE if position is None else position, dropout)
        self._check_options()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise matrices uniformly by fan-in and fan-out (Glorot), biases and sinks with 0. Buckets keep their values."""
        for name in ("w_q", "w_k", "w_v", "w_o"):
            w = getattr(self, name)
            fans = w.shape[0] * w.shape[1] + w.shape[2] if name == "w_o" else w.shape[0] + w.shape[1] * w.shape[2]
            nn.init.uniform_(w, -((6 / fans) ** 0.5), (6 / fans) ** 0.5)
        for name in ("b_q", "b_k", "b_v", "b_o", "sink"):
            if getattr(self, name) is not None:
                nn.init.zeros_(getattr(self, name))

    @property
    def params(self) -> LayerParams:
        """The parameters, as `layer.forward` takes them."""
        return LayerParams(**{name: getattr(self, name) for name in PARAMS})

    @property
    def config(self) -> LayerConfig:
        """The options of a call now: no dropout outside training."""
        position = self._config.position
        if isinstance(position, RelativeBuckets):
            position = replace(position, table=self.buckets)
        return replace(self._config, position=position, dropout=self._config.dropout if self.training else 0.0)

    @property
    def learned(self) -> LayerParams:
        """Deprecated: `params`."""
        warn("MultiHeadAttention.learned", "params")
        return self.params

    @property
    def rules(self) -> LayerConfig:
        """Deprecated: `config`."""
        warn("MultiHeadAttention.rules", "config")
        return self.config

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        query_offset: int | Sequence[int] | Tensor | None = None,
    ) -> Tensor:
        """The output for x, which attends to itself or to a context.

        Args:
            x: [B, T, M].
            context: [B, S, C]; x itself when absent.
            mask: bool, True where a key is visible; broadcast to [B, H, T, S].
            bias: float, added to the scores; broadcast to [B, H, T, S].
            query_offset: position of the first query, S - T when absent.

        Returns:
            [B, T, M].

        Raises:
            ShapeError, ArgumentError, ArgumentTypeError: arguments that do not fit together or are invalid.
        """
        inputs = LayerInputs(self._layout(context), mask=mask, bias=bias, query_offset=query_offset)
        return self._layout(layer.forward(self._layout(x), self.params, self.config, inputs).out)

    def decode(self, x: Tensor, past: KVCache | None = None, *, mask: Tensor | None = None, bias: Tensor | None = None) -> LayerOutput:
        """The output for the next tokens of a text, which attend to themselves and to the `past`; and the cache to continue with.

        A text decoded in chunks of any lengths gives the output of `forward` on the whole. A mask or bias covers the past too.

        Example:
            >>> attention = MultiHeadAttention(16, num_heads=4, causal=True)
            >>> first = attention.decode(torch.ones(1, 3, 16))
            >>> attention.decode(torch.ones(1, 1, 16), first.cache).cache.length
            4
        """
        found = layer.forward(self._layout(x), self.params, self.config, LayerInputs(past=past, mask=mask, bias=bias))
        return replace(found, out=self._layout(found.out))

    def trace(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        past: KVCache | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        query_offset: int | Sequence[int] | Tensor | None = None,
    ) -> Trace:
        """`forward`, returning every tensor between x and the output by name, with gradients."""
        inputs = LayerInputs(self._layout(context), past, mask, bias, query_offset)
        return layer.trace(self._layout(x), self.params, self.config, inputs)

    @classmethod
    def from_torch(cls, attention: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A copy of torch's own module: parameters, mode, dtype, device and dropout.

        The call differs: `forward(x, context, mask=...)` returns the output alone, and True in the mask means that a key is visible,
        where in torch's it means that it is hidden. `add_zero_attn` becomes a sink whose logit stays 0, which is equivalent.

        Raises:
            ArgumentTypeError: not an nn.MultiheadAttention.
            ArgumentError: `add_bias_kv`, which adds a learned key and value, or kdim and vdim that differ.

        Example:
            >>> theirs = nn.MultiheadAttention(16, 4, batch_first=True)
            >>> x = torch.randn(2, 3, 16)
            >>> torch.allclose(MultiHeadAttention.from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-5)
            True
        """
        if not isinstance(attention, nn.MultiheadAttention):
            raise ArgumentTypeError(f"attention must be a torch.nn.MultiheadAttention, got {type(attention).__name__}. Build a MultiHeadAttention instead.")
        if attention.bias_k is not None:
            raise ArgumentError("add_bias_kv must be False, got True. A learned key and value that belong to no token are not supported.")
        if attention.kdim != attention.vdim:
            raise ArgumentError(f"vdim must equal kdim, got {attention.vdim} and {attention.kdim}. Keys and values are read from one context.")
        heads, params = attention.num_heads, _params_of(attention)
        ours = cls(
            attention.embed_dim,
            heads,
            context_dim=attention.kdim,
            bias=attention.in_proj_bias is not None,
            sink=attention.add_zero_attn,
            dropout=attention.dropout,
            batch_first=attention.batch_first,
            device=params["w_q"].device,
            dtype=params["w_q"].dtype,
        )
        with torch.no_grad():
            for name, found in params.items():
                getattr(ours, name).copy_(found).requires_grad_(found.requires_grad)
        if ours.sink is not None:
            ours.sink.requires_grad_(False)
        return ours.train(attention.training)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())

    def _arguments(self) -> dict[str, object]:
        """The constructor's arguments, without those that have their default."""
        config, default = self._config, LayerConfig()
        sizes = {"num_kv_heads": self.num_heads, "head_dim": self.d_model // self.num_heads, "value_dim": self.head_dim, "context_dim": self.d_model}
        arguments: dict[str, object] = {"d_model": self.d_model, "num_heads": self.num_heads}
        arguments |= {name: getattr(self, name) for name, size in sizes.items() if getattr(self, name) != size}
        if self.b_o is None:
            arguments["bias"] = False if self.b_q is None else "qkv"
        for name in ("causal", "window", "softcap", "scale", "dropout"):
            if getattr(config, name) != getattr(default, name):
                arguments[name] = getattr(config, name)
        if self.sink is not None:
            arguments["sink"] = True
        if config.position is not NOPE:
            arguments["position"] = config.position
        if not self.batch_first:
            arguments["batch_first"] = False
        return arguments

    @overload
    def _layout(self, x: Tensor) -> Tensor: ...
    @overload
    def _layout(self, x: Tensor | None) -> Tensor | None: ...
    def _layout(self, x: Tensor | None) -> Tensor | None:
        """Convert the caller's layout to [B, T, M], or back again."""
        return x if self.batch_first or not isinstance(x, Tensor) or x.dim() < 2 else x.transpose(0, 1)

    def _check_options(self) -> None:
        """Refuse invalid options now, not at the first call."""
        q, k = (torch.zeros(1, heads, 1, self.head_dim) for heads in (self.num_heads, self.num_kv_heads))
        config = self._config
        call = make_call(q, k, config.causal, window=config.window, scale=config.scale, softcap=config.softcap)
        config.position.rotate(q, call.offset[:, None])
        config.position.bias(call.offset, self.num_heads, q.dtype)


def _params_of(attention: nn.MultiheadAttention) -> dict[str, Float[Tensor, "..."]]:
    """The parameters of torch's module by our names, split by head."""
    heads = attention.num_heads
    separate = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
    weights = attention.in_proj_weight.chunk(3) if attention.in_proj_weight is not None else separate
    params = {f"w_{name}": split_in_proj(weight, heads) for name, weight in zip("qkv", weights, strict=True)}
    params["w_o"] = split_out_proj(attention.out_proj.weight, heads)
    if attention.in_proj_bias is not None:
        params |= {f"b_{name}": b.unflatten(0, (heads, -1)) for name, b in zip("qkv", attention.in_proj_bias.chunk(3), strict=True)}
        params["b_o"] = attention.out_proj.bias
    return params


def _shapes(m: int, h: int, g: int, d: int, e: int, c: int, bias: bool | str, sink: bool) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of a module of these sizes."""
    if not isinstance(bias, bool) and bias != "qkv":
        raise ArgumentError(f"bias must be True, False or 'qkv', got {bias!r}. With 'qkv' the output has none.")
    shapes: dict[str, tuple[int, ...]] = {"w_q": (m, h, d), "w_k": (c, g, d), "w_v": (c, g, e), "w_o": (h, e, m)}
    if bias:
        shapes |= {"b_q": (h, d), "b_k": (g, d), "b_v": (g, e)}
    if bias is True:
        shapes |= {"b_o": (m,)}
    return shapes | ({"sink": (h,)} if sink else {})


def _size(name: str, size: int) -> int:
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise ArgumentTypeError(f"{name} must be a whole number, got {size!r}. Pass an int.")
    if size.__index__() < 1:
        raise ArgumentError(f"{name} must be at least 1, got {size}. Pass a positive number.")
    return size.__index__()


def _device(device: torch.device | str | None) -> torch.device | None:
    try:
        return None if device is None else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"device must be one that torch knows, got {device!r}. Pass for instance 'cpu' or 'cuda'.") from error


def _float_dtype(dtype: torch.dtype | None) -> torch.dtype | None:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise ArgumentTypeError(f"dtype must be a torch.dtype, got {dtype!r}. Pass for instance torch.float32.")
    if dtype is not None and not dtype.is_floating_point:
        raise ArgumentError(f"dtype must be a floating-point dtype, got {dtype}. Pass for instance torch.float32.")
    return dtype


def _width(d_model: int, num_heads: int) -> int:
    if d_model % num_heads:
        raise ArgumentError(f"num_heads must divide d_model, got {num_heads} and {d_model}. Choose {divisors(d_model)}, or give head_dim.")
    return d_model // num_heads
