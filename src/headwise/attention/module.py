"""`MultiHeadAttention`: the layer as a torch module, to be trained or to be looked at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

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

MAPS = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "sink")


class MultiHeadAttention(nn.Module):
    """Multi-head attention with a name for every tensor of its path.

    Parameters are split by head: `w_q [M, H, D]`, `w_k [C, G, D]`, `w_v [C, G, E]`, `w_o [H, E, M]`, `b_q`, `b_k`, `b_v`,
    `b_o`, and where asked for `sink [H]` and `buckets [N, H]`: these are the keys of the state_dict. The mathematics is
    `headwise.attention.layer`, the same code that is proved and that opens models.

    Args:
        d_model: M, the width of x and of the output.
        num_heads: H.
        num_kv_heads: G, heads of keys and values; head h reads key head h // (H // G). H when absent.
        head_dim: D, the width of a query or key; M / H when absent.
        value_dim: E, the width of a value; D when absent.
        context_dim: C, the width of the context in cross-attention; M when absent.
        bias: the maps have biases; "qkv" for all but the output.
        causal, window, softcap, scale: as in `hw.attend`.
        sink: learn a logit for each head that takes weight from all keys; it starts at 0.
        position: a `Rotary`, an `Alibi`, or `RelativeBuckets` whose table then learns.
        dropout: share of the weights that is dropped in training, drawn afresh for each batch row, head, query and key; what
            stays is scaled up. Training with dropout holds T × S weights; otherwise memory grows with the length.
        batch_first: x is [B, T, M]; if False [T, B, M], and so are context and output. A trace is always batch first.

    Raises:
        ArgumentError: sizes that do not fit together, or an option that `hw.attend` refuses.
        ArgumentTypeError: a size that is no whole number.

    References:
        Vaswani et al. 2017, section 3.2. Initial values: Glorot and Bengio 2010, each map by itself (torch takes q, k and v as
        one map, and so starts smaller).

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
        device, dtype = _place(device), _floating(dtype)

        shapes = _shapes(m, h, g, d, e, c, bias, sink)
        for name in MAPS:
            shape = shapes.get(name)
            self.register_parameter(name, None if shape is None else nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.register_parameter("buckets", None)
        if isinstance(position, RelativeBuckets):
            self.buckets = nn.Parameter(position.table.detach().clone().to(self.w_q))
            position = replace(position, table=self.buckets)
        self._config = LayerConfig(causal, window, scale, softcap, NOPE if position is None else position, dropout)
        self._try_out()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew: maps uniform by the widths that they join (Glorot), biases and sinks 0. Buckets stay."""
        for name in ("w_q", "w_k", "w_v", "w_o"):
            w = getattr(self, name)
            joined = w.shape[0] * w.shape[1] + w.shape[2] if name == "w_o" else w.shape[0] + w.shape[1] * w.shape[2]
            nn.init.uniform_(w, -((6 / joined) ** 0.5), (6 / joined) ** 0.5)
        for name in ("b_q", "b_k", "b_v", "b_o", "sink"):
            if getattr(self, name) is not None:
                nn.init.zeros_(getattr(self, name))

    @property
    def params(self) -> LayerParams:
        """The parameters as the layer reads them."""
        return LayerParams(**{name: getattr(self, name) for name in MAPS})

    @property
    def config(self) -> LayerConfig:
        """The options, as they hold now: no dropout outside training."""
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
        """The output for x, which looks at itself or at a context.

        Args:
            x: [B, T, M].
            context: [B, S, C]; x itself when absent.
            mask: bool, True where a key may be seen; broadcast to [B, H, T, S].
            bias: float, added to the scores; broadcast to [B, H, T, S].
            query_offset: position of the first query, S - T when absent.

        Returns:
            [B, T, M].

        Raises:
            ShapeError, ArgumentError, ArgumentTypeError: what does not fit, in one line.
        """
        inputs = LayerInputs(self._lay(context), mask=mask, bias=bias, query_offset=query_offset)
        return self._lay(layer.forward(self._lay(x), self.params, self.config, inputs).out)

    def decode(self, x: Tensor, past: KVCache | None = None, *, mask: Tensor | None = None, bias: Tensor | None = None) -> LayerOutput:
        """The next tokens of a text, which look at themselves and at the `past`; with the cache to go on from.

        Any cut of a text into chunks gives what `forward` gives on the whole. A mask or bias covers the past too.

        Example:
            >>> attention = MultiHeadAttention(16, num_heads=4, causal=True)
            >>> first = attention.decode(torch.ones(1, 3, 16))
            >>> attention.decode(torch.ones(1, 1, 16), first.cache).cache.length
            4
        """
        passed = layer.forward(self._lay(x), self.params, self.config, LayerInputs(past=past, mask=mask, bias=bias))
        return replace(passed, out=self._lay(passed.out))

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
        """Every tensor between x and the output, by name, with gradients: `forward` with nothing left out."""
        inputs = LayerInputs(self._lay(context), past, mask, bias, query_offset)
        return layer.trace(self._lay(x), self.params, self.config, inputs)

    @classmethod
    def from_torch(cls, attention: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention with torch's own parameters, copied: mode, dtype, device and dropout too.

        The call differs: `forward(x, context, mask=...)` returns the output alone, and a True in the mask means that a key
        may be seen, where torch's means that it is hidden. `add_zero_attn` becomes a sink whose logit stays 0, which is the same.

        Raises:
            ArgumentTypeError: not an nn.MultiheadAttention.
            ArgumentError: `add_bias_kv`, whose learned key and value have no place here, or kdim and vdim that differ.

        Example:
            >>> theirs = nn.MultiheadAttention(16, 4, batch_first=True)
            >>> x = torch.randn(2, 3, 16)
            >>> torch.allclose(MultiHeadAttention.from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-5)
            True
        """
        if not isinstance(attention, nn.MultiheadAttention):
            raise ArgumentTypeError(f"attention must be a torch.nn.MultiheadAttention, got {type(attention).__name__}. Build a MultiHeadAttention instead.")
        if attention.bias_k is not None:
            raise ArgumentError("add_bias_kv must be False, got True. There is no place for a key and a value that no token has.")
        if attention.kdim != attention.vdim:
            raise ArgumentError(f"vdim must equal kdim, got {attention.vdim} and {attention.kdim}. Keys and values are read from one context.")
        heads, maps = attention.num_heads, _maps_of(attention)
        ours = cls(
            attention.embed_dim,
            heads,
            context_dim=attention.kdim,
            bias=attention.in_proj_bias is not None,
            sink=attention.add_zero_attn,
            dropout=attention.dropout,
            batch_first=attention.batch_first,
            device=maps["w_q"].device,
            dtype=maps["w_q"].dtype,
        )
        with torch.no_grad():
            for name, found in maps.items():
                getattr(ours, name).copy_(found).requires_grad_(found.requires_grad)
        if ours.sink is not None:
            ours.sink.requires_grad_(False)
        return ours.train(attention.training)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._said().items())

    def _said(self) -> dict[str, object]:
        """The arguments that make a module like this one, without those that are as usual."""
        config, usual = self._config, LayerConfig()
        sizes = {"num_kv_heads": self.num_heads, "head_dim": self.d_model // self.num_heads, "value_dim": self.head_dim, "context_dim": self.d_model}
        said: dict[str, object] = {"d_model": self.d_model, "num_heads": self.num_heads}
        said |= {name: getattr(self, name) for name, size in sizes.items() if getattr(self, name) != size}
        if self.b_o is None:
            said["bias"] = False if self.b_q is None else "qkv"
        for name in ("causal", "window", "softcap", "scale", "dropout"):
            if getattr(config, name) != getattr(usual, name):
                said[name] = getattr(config, name)
        if self.sink is not None:
            said["sink"] = True
        if config.position is not NOPE:
            said["position"] = config.position
        if not self.batch_first:
            said["batch_first"] = False
        return said

    def _lay(self, x: Any) -> Any:
        """From the caller's layout to [B, T, M], and back again."""
        return x if self.batch_first or not isinstance(x, Tensor) or x.dim() < 2 else x.transpose(0, 1)

    def _try_out(self) -> None:
        """Options that no call could honour are refused now, not at the first call."""
        q, k = (torch.zeros(1, heads, 1, self.head_dim) for heads in (self.num_heads, self.num_kv_heads))
        config = self._config
        call = make_call(q, k, config.causal, window=config.window, scale=config.scale, softcap=config.softcap)
        config.position.rotate(q, call.offset[:, None])
        config.position.bias(call.offset, self.num_heads, q.dtype)


def _maps_of(attention: nn.MultiheadAttention) -> dict[str, Float[Tensor, "..."]]:
    """torch's parameters by our names, split by head."""
    heads = attention.num_heads
    apart = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
    three = attention.in_proj_weight.chunk(3) if attention.in_proj_weight is not None else apart
    maps = {f"w_{name}": split_in_proj(weight, heads) for name, weight in zip("qkv", three, strict=True)}
    maps["w_o"] = split_out_proj(attention.out_proj.weight, heads)
    if attention.in_proj_bias is not None:
        maps |= {f"b_{name}": b.unflatten(0, (heads, -1)) for name, b in zip("qkv", attention.in_proj_bias.chunk(3), strict=True)}
        maps["b_o"] = attention.out_proj.bias
    return maps


def _shapes(m: int, h: int, g: int, d: int, e: int, c: int, bias: bool | str, sink: bool) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter that a module of these sizes has."""
    if not isinstance(bias, bool) and bias != "qkv":
        raise ArgumentError(f"bias must be True, False or 'qkv', got {bias!r}. 'qkv' leaves it out of the output.")
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


def _place(device: torch.device | str | None) -> torch.device | None:
    try:
        return None if device is None else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"device must be one that torch knows, got {device!r}. Pass 'cpu' or 'cuda', say.") from error


def _floating(dtype: torch.dtype | None) -> torch.dtype | None:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise ArgumentTypeError(f"dtype must be a torch.dtype, got {dtype!r}. Pass torch.float32, say.")
    if dtype is not None and not dtype.is_floating_point:
        raise ArgumentError(f"dtype must be of floating point, as parameters learn, got {dtype}. Pass torch.float32, say.")
    return dtype


def _width(d_model: int, num_heads: int) -> int:
    if d_model % num_heads:
        raise ArgumentError(f"num_heads must divide d_model, got {num_heads} and {d_model}. Choose {divisors(d_model)}, or give head_dim.")
    return d_model // num_heads
