"""The judge: float64, every score materialised, written straight from the definition. It shares no code with the rest.

Masks, positions, group heads and gradients (torch's own autograd) are all spelled out here a second time on purpose: a
mistake in `mask.py` cannot hide itself by being used on both sides.
"""

from types import MappingProxyType

import torch

from headwise.attention.call import Attended, Call, Kernel
from headwise.attention.statistic import Scene
from headwise.axes import Bool, Float, Int, Key, Query, Tensor, Value
from headwise.catalog import entries


def attend(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    q, k, v = query.double(), _each_head(key.double(), query.shape[1]), _each_head(value.double(), query.shape[1])
    bias = None if call.bias is None else _whole(call.bias, q, k).double()
    seen = _seen(q, k, call)
    if bias is not None:
        seen = seen & ~(bias.detach() == -torch.inf)

    scores = _dot(q, k, seen) * call.scale
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    if bias is not None:
        scores = scores + torch.where(seen, bias, 0.0)
    scores = scores.masked_fill(~seen, -torch.inf)
    seen = seen & ~(scores.detach() == -torch.inf)  # a score of -inf hides, wherever it comes from

    lse, weights, sink = _softmax(scores, seen, call)
    output = _mix(weights, v, seen)
    scene = Scene(_positions(q, call), seen, sink.detach() if call.sink is not None else None, call.segments)
    found = {name: _measure(name, weights.detach(), scene, query.dtype) for name in statistics}
    return Attended(output.to(query.dtype), lse.to(_wide(query.dtype)), MappingProxyType(found))


def _softmax(scores: Float[Tensor, "B H T S"], seen: Bool[Tensor, "B H T S"], call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """lse, weights and the sink's weight; a row that sees nothing and has no sink gets lse -inf and weights 0."""
    logit = scores.new_full(scores.shape[:3], -torch.inf)
    if call.sink is not None:
        logit = call.sink.double()[None, :, None].expand(scores.shape[:3])
    row = torch.cat([scores, logit[..., None]], -1)
    alive = (row.detach() > -torch.inf).any(-1) | row.detach().isnan().any(-1)
    row = torch.where(alive[..., None], row, 0.0)
    lse = torch.where(alive, row.logsumexp(-1), -torch.inf)
    share = row.softmax(-1)
    weights = torch.where(seen & alive[..., None], share[..., :-1], 0.0)
    return lse, weights, torch.where(alive, share[..., -1], torch.nan)


def _dot(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], seen: Bool[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """q·k; pair by pair where something is not finite, so that 0 · inf of a hidden pair enters no gradient."""
    if q.detach().isfinite().all() and k.detach().isfinite().all():
        return torch.einsum("bhtd,bhsd->bhts", q, k)
    pair = seen[..., None]
    return (torch.where(pair, q[:, :, :, None], 0.0) * torch.where(pair, k[:, :, None], 0.0)).sum(-1)


def _mix(weights: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], seen: Bool[Tensor, "B H T S"]) -> Float[Tensor, "B H T E"]:
    if v.detach().isfinite().all() and weights.detach().isfinite().all():
        return torch.einsum("bhts,bhse->bhte", weights, v)
    pair = seen[..., None]
    return (torch.where(pair, weights[..., None], 0.0) * torch.where(pair, v[:, :, None], 0.0)).sum(-2)


def _seen(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], call: Call) -> Bool[Tensor, "B H T S"]:
    p = _positions(q, call)[:, None, :, None]
    j = torch.arange(k.shape[2], device=q.device)[None, None, None, :]
    seen = torch.ones(*q.shape[:3], k.shape[2], dtype=torch.bool, device=q.device)
    if call.causal:
        seen = seen & (j <= p)
    if isinstance(call.window, int):
        seen = seen & (j > p - call.window)
    elif call.window is not None:
        left, right = call.window
        if left is not None:
            seen = seen & (j >= p - left)
        if right is not None:
            seen = seen & (j <= p + right)
    return seen if call.mask is None else seen & _whole(call.mask, q, k)


def _positions(q: Float[Tensor, "B H T D"], call: Call) -> Int[Tensor, "B T"]:
    return torch.stack([offset + torch.arange(q.shape[2], device=q.device) for offset in call.offset]) if len(q) else call.offset[:, None].expand(0, q.shape[2])


def _each_head(x: Float[Tensor, "B G S X"], heads: int) -> Float[Tensor, "B H S X"]:
    """Head h reads key head h // (H // G)."""
    groups = x.shape[1]
    return x if groups == heads else x[:, [head // (heads // groups) for head in range(heads)]]


def _whole(plane, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"]) -> Tensor:
    shape = (*q.shape[:3], k.shape[2])
    whole = plane if isinstance(plane, Tensor) else plane.tile(slice(0, shape[2]), slice(0, shape[3]))
    return whole.expand(shape)


def _measure(name: str, weights: Float[Tensor, "B H T S"], scene: Scene, dtype: torch.dtype) -> Tensor:
    entry = entries("headwise.attention.statistics")[name]
    dead, broken = ~scene.visible.any(-1), weights.isnan().any(-1)
    number = entry.of_weights(weights, scene)
    if number.is_floating_point() and number.shape[:3] == dead.shape and name != "received":
        number = torch.where(broken.reshape(dead.shape + (1,) * (number.dim() - 3)), torch.nan, number)
    if entry.dead is not None:
        gone = dead.reshape(dead.shape + (1,) * (number.dim() - 3))
        number = torch.where(gone, torch.full_like(number, entry.dead), number)
    return number if not number.is_floating_point() else number.to(_wide(dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


ENTRY = Kernel(attend=attend, refusal=lambda *call: None, preference=0)
