"""`attend`, the public function that computes attention: it validates the arguments, makes a `Call` of them, and chooses a kernel."""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from headwise.attention.call import Attended, Call, Kernel, no_autocast
from headwise.axes import Int, Key, Query, Tensor, Value
from headwise.catalog import entries
from headwise.errors import ArgumentError, ArgumentTypeError, BackendError, ShapeError

Window = int | tuple[int | None, int | None]
MAX_POSITION = 2**60  # tokens
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def attend(
    query: Query,
    key: Key,
    value: Value,
    *,
    causal: bool = False,
    query_offset: int | Sequence[int] | Tensor | None = None,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    statistics: str | Iterable[str] = (),
    segments: Tensor | None = None,
    backend: str | None = None,
) -> Attended:
    """Scaled dot-product attention with exact statistics of every query, in memory linear in the length.

        scores = softcap(scale · q·k) + bias        -inf where causal, window or mask hides the key
        output = softmax([scores, sink]) · value    the sink is an extra key with value zero

    Query i is at position p = query_offset + i; head h reads key head h // (H // G). A query with no visible key has output 0 and
    lse equal to the sink's logit (-inf without one). Hidden keys cannot matter: a NaN or infinity in a hidden key or value affects
    neither outputs nor gradients; in a visible one it affects only the queries that attend to it.

    Args:
        query: [B, H, T, D].
        key: [B, G, S, D]; G divides H.
        value: [B, G, S, E].
        causal: key j is visible only when j <= p.
        query_offset: position p of the first query, in tokens: one number, or one for each batch row. S - T when absent, so
            that the last query is at the last key, as with a cache.
        window: an int w makes key j visible only when j > p - w, with no limit ahead; a pair (left, right) only when
            p - left <= j <= p + right, None for no limit. (0, 0) leaves the query's own position.
        mask: bool, True where a key is visible; broadcast to [B, H, T, S]. A key must be visible by every argument.
        bias: float, added to the scores after the cap; broadcast to [B, H, T, S]. -inf hides.
        scale: any finite number, including zero and negative ones. D^-1/2 when absent.
        softcap: c > 0: scores become c·tanh(scores / c).
        sink: one logit for each head, [H]; neither scaled nor capped.
        statistics: names, or "all" for those that need no argument and no second pass. See `hw.statistics()`.
        segments: the label of each key for the statistic "segment", [B, S], from 0; negative for none.
        backend: "reference", "stream" or "native"; the fastest that supports all arguments when absent.

    Returns:
        `output` [B, H, T, E] in the dtype of the query; `lse` [B, H, T] and `statistics` in float32, or in float64
        for float64 input. `output` and `lse` have gradients; statistics have none.

    Raises:
        ShapeError: shapes do not fit together.
        ArgumentError: an invalid value, an unknown statistic or backend.
        ArgumentTypeError: a mask that is not bool, a bias that is not float, tensors of different dtypes.
        BackendError: the chosen backend does not support this call.

    References:
        Vaswani et al. 2017, equation 1. Online softmax: Milakov and Gimelshein 2018; in tiles: Dao et al. 2022.
        Sinks: gpt-oss 2025. Softcap: Gemma 2 2024.

    Example:
        >>> q, k, v = torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 5, 8), torch.ones(1, 2, 5, 6)
        >>> found = attend(q, k, v, causal=True, statistics=["entropy"])
        >>> list(found.output.shape), [round(x, 3) for x in found.statistics["entropy"][0, 0].tolist()]
        ([1, 4, 3, 6], [1.099, 1.386, 1.609])
    """
    _check_shapes(query, key, value)
    names = statistic_names(statistics)
    call = make_call(query, key, causal, query_offset, window, mask, bias, scale, softcap, sink)
    call = replace(call, segments=_segments(segments, key, names))
    return compute(query, key, value, call, names, backend)


def make_call(
    query: Query,
    key: Key,
    causal: bool = False,
    query_offset: int | Sequence[int] | Tensor | None = None,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> Call:
    """Validate the arguments of `attend` for queries and keys of these shapes, and make a `Call` of them."""
    return Call(
        scale=_scale(scale, query.shape[-1]),
        offset=_offset(query_offset, query, key),
        causal=_flag("causal", causal),
        window=_window(window),
        mask=_plane("mask", mask, query, key),
        bias=_plane("bias", bias, query, key),
        softcap=_softcap(softcap),
        sink=_sink(sink, query),
    )


def compute(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...] = (), backend: str | None = None) -> Attended:
    """Compute a call that is already validated, with the kernel of this name or with the fastest that supports it.

    Raises:
        BackendError: the kernel does not support the call.
    """
    kernels: dict[str, Kernel] = dict(entries("headwise.attention.kernels"))
    if backend is not None:
        if backend not in kernels:
            raise ArgumentError(f"backend must be one of {sorted(kernels)}, got {backend!r}. Leave it out for the fastest.")
        refusal = kernels[backend].refusal(query, key, value, call, statistics)
        if refusal is not None:
            raise BackendError(f"backend {backend!r} does not support this call: {refusal}. Leave backend out, or choose another.")
        with no_autocast(query):
            return kernels[backend].attend(query, key, value, call, statistics)
    for kernel in sorted(kernels.values(), key=lambda kernel: -kernel.preference):
        if kernel.refusal(query, key, value, call, statistics) is None:
            with no_autocast(query):
                return kernel.attend(query, key, value, call, statistics)
    raise BackendError("no backend supports this call. `headwise doctor` says which ones work here.")


def statistic_names(statistics: str | Iterable[str]) -> tuple[str, ...]:
    """Validate names of statistics, and replace "all" by the names that it stands for.

    Example:
        >>> statistic_names(["entropy", "self"])
        ('entropy', 'self')
    """
    known = entries("headwise.attention.statistics")
    if not isinstance(statistics, Iterable):
        raise ArgumentTypeError(f"statistics must be 'all' or names, got {statistics!r}. Pass a list of names.")
    wanted = [statistics] if isinstance(statistics, str) else list(statistics)
    everything = [name for name, entry in known.items() if not entry.opt_in]
    names: dict[str, None] = {}
    for name in wanted:
        if name != "all" and name not in known:
            raise ArgumentError(f"statistics must be 'all' or names among {sorted(known)}, got {name!r}. Correct the name.")
        names.update(dict.fromkeys(everything if name == "all" else [name]))
    return tuple(names)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}. Convert it with torch.as_tensor.")
        if tensor.dim() != 4:
            raise ShapeError(f"{name} must have 4 axes [batch, heads, length, width], got {list(tensor.shape)}. Add the missing ones.")
        if tensor.dtype not in FLOATS:
            raise ArgumentTypeError(f"{name} must be float16, bfloat16, float32 or float64, got {tensor.dtype}. Convert it first.")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dtype != query.dtype:
            raise ArgumentTypeError(f"{name} must have the dtype of query, got {tensor.dtype} and {query.dtype}. Convert one of them.")
        if tensor.device != query.device:
            raise ArgumentError(f"{name} must be on the device of query, got {tensor.device} and {query.device}. Move one of them.")
    b, h, _, d = query.shape
    g, s = key.shape[1:3]
    if key.shape[0] != b or value.shape[0] != b:
        raise ShapeError(f"batch of query, key and value must be equal, got {b}, {key.shape[0]} and {value.shape[0]}. Expand the smaller.")
    if key.shape[3] != d:
        raise ShapeError(f"width of key must be that of query, got {key.shape[3]} and {d}. Check which axis is which.")
    if value.shape[1:3] != key.shape[1:3]:
        raise ShapeError(f"value must have the heads and length of key, got {list(value.shape[1:3])} and {[g, s]}. Check which axis is which.")
    if h and (g == 0 or h % g):
        choices = [n for n in range(1, h + 1) if h % n == 0]
        raise ShapeError(f"heads of key must divide heads of query, got {g} and {h}. Choose one of {choices}.")


def _scale(scale: float | None, width: int) -> float:
    if scale is None:
        if width == 0:
            raise ArgumentError("scale must be given when the width of query is 0, got None. Pass scale=1.0.")
        return width**-0.5
    return _real("scale", scale)


def _softcap(softcap: float | None) -> float | None:
    if softcap is None:
        return None
    cap = _real("softcap", softcap)
    if cap <= 0:
        raise ArgumentError(f"softcap must be positive, got {cap}. Leave it out for no cap.")
    return cap


def _real(name: str, number: float) -> float:
    if isinstance(number, Tensor) and number.requires_grad:
        raise ArgumentTypeError(f"{name} must be a number, got a tensor that has a gradient, which would be lost. Multiply the query by it instead.")
    try:
        value = float(+number)  # + refuses text
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} must be a number, got {type(number).__name__}. Pass a float.") from None
    if not math.isfinite(value):
        raise ArgumentError(f"{name} must be finite, got {value}. Pass a finite number.")
    return value


def _flag(name: str, flag: bool) -> bool:
    if not isinstance(flag, bool):
        raise ArgumentTypeError(f"{name} must be True or False, got {flag!r}. Masks go to `mask`, distances to `window`.")
    return flag


def _whole_number(name: str, number: object) -> int:
    try:
        whole = operator.index(None if isinstance(number, bool) else number)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise ArgumentTypeError(f"{name} must be a whole number of tokens, got {number!r}. Pass an int.") from None
    return max(-MAX_POSITION, min(whole, MAX_POSITION))  # in effect unlimited, and sums fit in 64 bits


def _window(window: Window | None) -> Window | None:
    if window is None:
        return None
    if isinstance(window, tuple | list):
        if len(window) != 2:
            raise ArgumentError(f"window must be an int or a pair (left, right), got {window!r}. None means no limit.")
        left, right = (None if side is None else _whole_number("window", side) for side in window)
        return left, right
    return _whole_number("window", window)


def _offset(query_offset: int | Sequence[int] | Tensor | None, query: Query, key: Key) -> Int[Tensor, " B"]:
    batch = query.shape[0]
    if query_offset is None:
        query_offset = key.shape[2] - query.shape[2]
    try:
        offset = torch.as_tensor(query_offset)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentTypeError(f"query_offset must be whole numbers of tokens, got {query_offset!r}. Pass an int, or one int for each batch row.") from None
    offset = offset if offset.numel() else offset.long()  # [] for a batch of none
    if offset.is_floating_point() or offset.is_complex() or offset.dtype == torch.bool:
        raise ArgumentTypeError(f"query_offset must be whole numbers of tokens, got {offset.dtype}. Pass an int, or one int for each batch row.")
    if offset.dim() > 1 or (offset.dim() == 1 and len(offset) not in (1, batch)):
        raise ShapeError(f"query_offset must be one number or one for each of {batch} batch rows, got shape {list(offset.shape)}. Reshape it.")
    if offset.numel() and not -MAX_POSITION <= min(ends := offset.long().aminmax()) <= max(ends) <= MAX_POSITION:
        raise ArgumentError(f"query_offset must lie within 2^60 tokens, got {offset.tolist()}. It is the position of the first query.")
    return offset.to(device=query.device, dtype=torch.int64).expand(batch)


def _plane(name: str, plane: Tensor | None, query: Query, key: Key) -> Tensor | None:
    """The mask or bias with 4 axes, each of full length or 1."""
    if plane is None:
        return None
    if not isinstance(plane, Tensor):
        raise ArgumentTypeError(f"{name} must be a torch.Tensor, got {type(plane).__name__}. Convert it with torch.as_tensor.")
    if name == "mask" and plane.dtype != torch.bool:
        raise ArgumentTypeError(f"mask must be bool (True = visible), got {plane.dtype}. Numbers that are added to the scores go to `bias`.")
    if name == "bias" and not plane.is_floating_point():
        raise ArgumentTypeError(f"bias must be float, got {plane.dtype}. True/False masks go to `mask`.")
    if plane.device != query.device:
        raise ArgumentError(f"{name} must be on the device of query, got {plane.device} and {query.device}. Move it.")
    full = (*query.shape[:3], key.shape[2])
    shape = (1,) * (4 - plane.dim()) + tuple(plane.shape)
    if len(shape) > 4 or any(have not in (1, need) for have, need in zip(shape, full, strict=False)):
        raise ShapeError(f"{name} must broadcast to [batch, heads, queries, keys] = {list(full)}, got {list(plane.shape)}. Insert axes of length 1.")
    return plane.reshape(shape)


def _sink(sink: Tensor | None, query: Query) -> Tensor | None:
    if sink is None:
        return None
    if not isinstance(sink, Tensor) or not sink.is_floating_point():
        raise ArgumentTypeError(f"sink must be a float tensor, got {sink.dtype if isinstance(sink, Tensor) else type(sink).__name__}. Pass one logit a head.")
    if sink.shape != query.shape[1:2]:
        raise ShapeError(f"sink must have one logit for each of {query.shape[1]} heads, got shape {list(sink.shape)}. Pass shape [{query.shape[1]}].")
    if sink.device != query.device:
        raise ArgumentError(f"sink must be on the device of query, got {sink.device} and {query.device}. Move it.")
    return sink


def _segments(segments: Tensor | None, key: Key, names: tuple[str, ...]) -> Tensor | None:
    known = entries("headwise.attention.statistics")
    readers = [name for name in names if known[name].needs_segments]
    if segments is None:
        if readers:
            raise ArgumentError(f"segments must be given for the statistic {readers[0]!r}, got None. Pass one label a key, shape [B, S].")
        return None
    if not readers:
        raise ArgumentError("segments must come with a statistic that reads them, got none in statistics. Add 'segment'.")
    if not isinstance(segments, Tensor) or segments.is_floating_point() or segments.is_complex() or segments.dtype == torch.bool:
        raise ArgumentTypeError(f"segments must be a tensor of ints, got {getattr(segments, 'dtype', type(segments).__name__)}. Number the spans from 0.")
    if segments.shape != (key.shape[0], key.shape[2]):
        raise ShapeError(f"segments must have one label a key, [B, S] = {[key.shape[0], key.shape[2]]}, got {list(segments.shape)}. Reshape it.")
    return segments.to(device=key.device, dtype=torch.int64)
