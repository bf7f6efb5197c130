"""The middle of the path on whole T x S planes, which `attend` never holds: scores, weights and what the heads say.

Nothing that is hidden can matter, also when it is NaN or inf and a product would give 0 · inf: where something is not
finite, pairs of query and key are taken one by one.
"""

from math import inf

from torch import Tensor, einsum, tanh, where

from headwise.attention.call import Call, accumulation_dtype, tile_of
from headwise.attention.mask import visible
from headwise.axes import Bool, Float, Key, Output, Query, Rows, Sink, Value, Weights


def visible_plane(call: Call, queries: int, keys: int) -> Bool[Tensor, "#B #H T S"]:
    """True where a query sees a key: by causality, window, mask, and a bias that is not -inf."""
    rows, columns = slice(0, queries), slice(0, keys)
    by_rule = visible(call, queries, keys).tile(rows, columns)
    return by_rule if call.bias is None else by_rule & (tile_of(call.bias, rows, columns) != -inf)


def dot_product(query: Query, key: Key, seen: Bool[Tensor, "#B #H T S"]) -> Weights:
    """q·k of every query with every key of the key head that its head reads."""
    q, k = query.to(accumulation_dtype(query.dtype)), repeat_kv(key, query.shape[1]).to(accumulation_dtype(key.dtype))
    if _finite(q, k):
        return einsum("bhtd,bhsd->bhts", q, k)
    pair = seen[..., None]
    return (where(pair, q[:, :, :, None], 0.0) * where(pair, k[:, :, None], 0.0)).sum(-1)


def cap_and_bias(scores: Weights, call: Call, seen: Bool[Tensor, "#B #H T S"]) -> Weights:
    """Scores as the softmax sees them: capped, then biased, then -inf where hidden."""
    if call.softcap is not None:
        scores = tanh(scores / call.softcap) * call.softcap
    if call.bias is not None:
        scores = scores + where(seen, tile_of(call.bias, slice(0, scores.shape[2]), slice(0, scores.shape[3])), 0.0)
    return scores.masked_fill(~seen, -inf)


def softmax(scores: Weights, sink: Sink | None = None) -> tuple[Weights, Rows]:
    """The weights of each row, and the share that its sink takes; together they are 1. All 0 in a row that sees nothing."""
    logit = scores.new_full(scores.shape[:3], -inf) if sink is None else sink.to(scores.dtype)[:, None].expand(scores.shape[:3])
    highest = scores.detach().amax(-1).maximum(logit.detach()) if scores.shape[-1] else logit.detach()
    highest = highest.masked_fill(highest == -inf, 0)
    mass, spared = (scores - highest[..., None]).exp(), (logit - highest).exp()
    total = mass.sum(-1) + spared
    total = total.masked_fill(total == 0, 1)
    return (mass / total[..., None]).masked_fill(scores == -inf, 0), spared / total


def weighted_sum(weights: Weights, value: Value, seen: Bool[Tensor, "#B #H T S"]) -> Output:
    """What each head says: the values of its key head, each taken with its weight."""
    v = repeat_kv(value, weights.shape[1]).to(weights.dtype)
    if _finite(weights, v):
        said = einsum("bhts,bhse->bhte", weights, v)
    else:
        pair = seen[..., None]
        said = (where(pair, weights[..., None], 0.0) * where(pair, v[:, :, None], 0.0)).sum(-2)
    return said.to(value.dtype)


def repeat_kv(x: Float[Tensor, "B G S X"], heads: int) -> Float[Tensor, "B H S X"]:
    """Keys or values as each query head reads them: head h those of h // (H // G), so that neighbours share."""
    return x.repeat_interleave(heads // x.shape[1], 1) if x.shape[1] != heads else x


def _finite(*tensors: Tensor) -> bool:
    return all(bool(x.detach().isfinite().all()) for x in tensors)
