"""The steps from scores to z on whole T × S planes, which `attend` never makes: what `trace` shows.

A hidden pair must not matter, even where its numbers are NaN or infinite and a matrix product would compute 0 · inf. So where
anything is not finite, the products are taken pair by pair.
"""

from math import inf

from torch import Tensor, einsum, tanh, where

from headwise.attention.call import Call, accumulation_dtype, tile_of
from headwise.attention.mask import visible_keys
from headwise.axes import Bool, Float, Key, Output, Query, Rows, Sink, Value, Weights


def visible_plane(call: Call, queries: int, keys: int) -> Bool[Tensor, "#B #H T S"]:
    """True where a query may attend to a key: by causality, window, mask, and a bias that is not -inf."""
    rows, columns = slice(0, queries), slice(0, keys)
    visible = visible_keys(call, queries, keys).tile(rows, columns)
    return visible if call.bias is None else visible & (tile_of(call.bias, rows, columns) != -inf)


def dot_product(query: Query, key: Key, visible: Bool[Tensor, "#B #H T S"]) -> Weights:
    """q·k of every query with every key of the key head that its head reads."""
    q, k = query.to(accumulation_dtype(query.dtype)), repeat_kv(key, query.shape[1]).to(accumulation_dtype(key.dtype))
    if _finite(q, k):
        return einsum("bhtd,bhsd->bhts", q, k)
    pair = visible[..., None]
    return (where(pair, q[:, :, :, None], 0.0) * where(pair, k[:, :, None], 0.0)).sum(-1)


def cap_and_bias(scores: Weights, call: Call, visible: Bool[Tensor, "#B #H T S"]) -> Weights:
    """The scores that the softmax is taken of: c·tanh(s / c), then plus the bias, then -inf where hidden."""
    if call.softcap is not None:
        scores = tanh(scores / call.softcap) * call.softcap
    if call.bias is not None:
        scores = scores + where(visible, tile_of(call.bias, slice(0, scores.shape[2]), slice(0, scores.shape[3])), 0.0)
    return scores.masked_fill(~visible, -inf)


def softmax(scores: Weights, sink: Sink | None = None) -> tuple[Weights, Rows]:
    """The weights of each row and the weight of its sink; together they sum to 1. All 0 in a row with no visible key."""
    logit = scores.new_full(scores.shape[:3], -inf) if sink is None else sink.to(scores.dtype)[:, None].expand(scores.shape[:3])
    highest = scores.detach().amax(-1).maximum(logit.detach()) if scores.shape[-1] else logit.detach()
    highest = highest.masked_fill(highest == -inf, 0)
    exp_scores, exp_sink = (scores - highest[..., None]).exp(), (logit - highest).exp()
    total = exp_scores.sum(-1) + exp_sink
    total = total.masked_fill(total == 0, 1)
    return (exp_scores / total[..., None]).masked_fill(scores == -inf, 0), exp_sink / total


def weighted_sum(weights: Weights, value: Value, visible: Bool[Tensor, "#B #H T S"]) -> Output:
    """The output z of each head: the sum of its key head's values, weighted."""
    v = repeat_kv(value, weights.shape[1]).to(weights.dtype)
    if _finite(weights, v):
        z = einsum("bhts,bhse->bhte", weights, v)
    else:
        pair = visible[..., None]
        z = (where(pair, weights[..., None], 0.0) * where(pair, v[:, :, None], 0.0)).sum(-2)
    return z.to(value.dtype)


def repeat_kv(x: Float[Tensor, "B G S X"], heads: int) -> Float[Tensor, "B H S X"]:
    """Keys or values repeated for the query heads: head h reads key head h // (H // G)."""
    return x.repeat_interleave(heads // x.shape[1], 1) if x.shape[1] != heads else x


def _finite(*tensors: Tensor) -> bool:
    return all(bool(x.detach().isfinite().all()) for x in tensors)
