"""The reference: float64, every score materialised, written directly from the definition. It shares no code with the others.

Masks, positions, groups of heads and gradients (torch's autograd) are implemented here a second time on purpose: a mistake in
`mask.py` cannot go unnoticed by being made on both sides of a comparison.
"""

from types import MappingProxyType

import torch

from headwise.attention.call import Attended, Call, Kernel, Tiled
from headwise.attention.statistic import StatisticContext
from headwise.axes import Bool, Float, Int, Key, Query, Tensor, Value
from headwise.catalog import entries


def attend(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    q, k, v = query.double(), _repeat_kv(key.double(), query.shape[1]), _repeat_kv(value.double(), query.shape[1])
    bias = None if call.bias is None else _materialised(call.bias, q, k).double()
    visible = _visible_pairs(q, k, call)
    if bias is not None:
        visible = visible & ~(bias.detach() == -torch.inf)

    scores = _dot(q, k, visible) * call.scale
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    if bias is not None:
        scores = scores + torch.where(visible, bias, 0.0)
    scores = scores.masked_fill(~visible, -torch.inf)
    visible = visible & ~(scores.detach() == -torch.inf)  # a score of -inf hides, whatever its origin

    lse, weights, sink = _softmax(scores, visible, call)
    output = _weighted_sum(weights, v, visible)
    context = StatisticContext(_positions(q, call), visible, sink.detach() if call.sink is not None else None, call.segments)
    found = {name: _statistic(name, weights.detach(), context, query.dtype) for name in statistics}
    return Attended(output.to(query.dtype), lse.to(_wide(query.dtype)), MappingProxyType(found))


def _softmax(scores: Float[Tensor, "B H T S"], visible: Bool[Tensor, "B H T S"], call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """lse, weights and the sink's weight; a row with no visible key and no sink has lse -inf and weights 0."""
    logit = scores.new_full(scores.shape[:3], -torch.inf)
    if call.sink is not None:
        logit = call.sink.double()[None, :, None].expand(scores.shape[:3])
    row = torch.cat([scores, logit[..., None]], -1)
    nonempty = (row.detach() > -torch.inf).any(-1) | row.detach().isnan().any(-1)
    row = torch.where(nonempty[..., None], row, 0.0)
    lse = torch.where(nonempty, row.logsumexp(-1), -torch.inf)
    probabilities = row.softmax(-1)
    weights = torch.where(visible & nonempty[..., None], probabilities[..., :-1], 0.0)
    return lse, weights, torch.where(nonempty, probabilities[..., -1], torch.nan)


def _dot(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], visible: Bool[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """q·k; pair by pair where something is not finite, so that no gradient has the 0 · inf of a hidden pair."""
    if q.detach().isfinite().all() and k.detach().isfinite().all():
        return torch.einsum("bhtd,bhsd->bhts", q, k)
    pair = visible[..., None]
    return (torch.where(pair, q[:, :, :, None], 0.0) * torch.where(pair, k[:, :, None], 0.0)).sum(-1)


def _weighted_sum(weights: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], visible: Bool[Tensor, "B H T S"]) -> Float[Tensor, "B H T E"]:
    if v.detach().isfinite().all() and weights.detach().isfinite().all():
        return torch.einsum("bhts,bhse->bhte", weights, v)
    pair = visible[..., None]
    return (torch.where(pair, weights[..., None], 0.0) * torch.where(pair, v[:, :, None], 0.0)).sum(-2)


def _visible_pairs(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], call: Call) -> Bool[Tensor, "B H T S"]:
    p = _positions(q, call)[:, None, :, None]
    j = torch.arange(k.shape[2], device=q.device)[None, None, None, :]
    visible = torch.ones(*q.shape[:3], k.shape[2], dtype=torch.bool, device=q.device)
    if call.causal:
        visible = visible & (j <= p)
    if isinstance(call.window, int):
        visible = visible & (j > p - call.window)
    elif call.window is not None:
        left, right = call.window
        if left is not None:
            visible = visible & (j >= p - left)
        if right is not None:
            visible = visible & (j <= p + right)
    return visible if call.mask is None else visible & _materialised(call.mask, q, k)


def _positions(q: Float[Tensor, "B H T D"], call: Call) -> Int[Tensor, "B T"]:
    return torch.stack([offset + torch.arange(q.shape[2], device=q.device) for offset in call.offset]) if len(q) else call.offset[:, None].expand(0, q.shape[2])


def _repeat_kv(x: Float[Tensor, "B G S X"], heads: int) -> Float[Tensor, "B H S X"]:
    """Head h reads key head h // (H // G)."""
    groups = x.shape[1]
    return x if groups == heads else x[:, [head // (heads // groups) for head in range(heads)]]


def _materialised(plane: Tensor | Tiled, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"]) -> Tensor:
    shape = (*q.shape[:3], k.shape[2])
    full = plane if isinstance(plane, Tensor) else plane.tile(slice(0, shape[2]), slice(0, shape[3]))
    return full.expand(shape)


def _statistic(name: str, weights: Float[Tensor, "B H T S"], context: StatisticContext, dtype: torch.dtype) -> Tensor:
    entry = entries("headwise.attention.statistics")[name]
    empty, has_nan = ~context.visible.any(-1), weights.isnan().any(-1)
    number = entry.of_weights(weights, context)
    if number.is_floating_point() and number.shape[:3] == empty.shape and name != "received":
        number = torch.where(has_nan.reshape(empty.shape + (1,) * (number.dim() - 3)), torch.nan, number)
    if entry.if_empty is not None:
        is_empty = empty.reshape(empty.shape + (1,) * (number.dim() - 3))
        number = torch.where(is_empty, torch.full_like(number, entry.if_empty), number)
    return number if not number.is_floating_point() else number.to(_wide(dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


ENTRY = Kernel(attend=attend, refusal=lambda *call: None, preference=0)
