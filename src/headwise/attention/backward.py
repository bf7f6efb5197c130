"""Gradients of output and lse, tile by tile: the weights of each tile are recomputed from lse, so no T × S tensor is stored.

    dv = wᵀ·do      dw = do·vᵀ      ds = w ∘ (dw - δ)      δ = Σ do ∘ o - dlse
    dq = scale · ds·k               dk = scale · dsᵀ·q      (ds times the derivative of the cap first)
    dbias = ds                      dsink = -Σ w_sink · δ

All kernels but the reference use this backward pass.

References: Dao et al. 2022, algorithm 4; the terms of lse, cap and sink are ours.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from headwise.attention.blocking import QueryBlock, ScoreTile, query_blocks
from headwise.attention.call import Attended, Call, no_autocast
from headwise.axes import Float, Key, Output, Query, Rows, Tensor, Value

Forward = Callable[[Query, Key, Value, Call, tuple[str, ...]], Attended]


def with_gradients(forward: Forward, query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    """The result of `forward`, with gradients of output and lse where an input requires them; statistics have none."""
    inputs = [query, key, value, call.bias, call.sink]
    if not (torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)):
        return forward(query, key, value, call, statistics)
    output, lse, *found = _Differentiable.apply(forward, *inputs, call, statistics)  # pyright: ignore[reportGeneralTypeIssues]
    return Attended(output, lse, MappingProxyType(dict(zip(statistics, found, strict=True))))


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Forward, query: Query, key: Key, value: Value, bias: Any, sink: Any, call: Call, statistics: tuple[str, ...]):
        attended = forward(query, key, value, call, statistics)
        ctx.save_for_backward(query, key, value, attended.output, attended.lse, *(x for x in (bias, sink) if isinstance(x, Tensor)))
        ctx.call = call
        found = [attended.statistics[name] for name in statistics]
        ctx.mark_non_differentiable(*found)
        return attended.output, attended.lse, *found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, d_lse: Tensor, *_: Any):
        query, key, value, output, lse = ctx.saved_tensors[:5]
        with no_autocast(query):
            return None, *gradients(query, key, value, output, lse, ctx.call, d_output, d_lse), None, None


@torch.no_grad()
def gradients(
    query: Query, key: Key, value: Value, output: Output, lse: Rows, call: Call, d_output: Output, d_lse: Rows
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of query, key, value, bias and sink; None for a bias or sink that the call lacks, or a bias that is `Tiled`."""
    dtype = lse.dtype
    d_q, d_k, d_v = (torch.zeros(x.shape, dtype=dtype, device=x.device) for x in (query, key, value))
    d_bias = torch.zeros_like(call.bias, dtype=dtype) if isinstance(call.bias, Tensor) else None
    d_sink = None if call.sink is None else torch.zeros_like(call.sink, dtype=dtype)
    delta = (d_output.to(dtype) * output.to(dtype)).sum(-1) - d_lse.to(dtype)

    for block in query_blocks(query, key, call, dtype):
        rows = _BlockGradients(block, value, lse, d_output, delta)
        d_query = d_q[block.batch, block.query_heads, block.rows]
        accumulated = torch.zeros_like(block.q)
        for tile in block.tiles():
            weights, d_scores, d_raw = rows.of_scores(tile)
            _add_to_keys(d_v, tile, rows.of_values(tile, weights))
            _add_to_keys(d_k, tile, d_raw.mT @ rows.q)  # q already includes the scale
            accumulated.baddbmm_(d_raw, rows.k[:, tile.keys])
            if d_bias is not None:
                _add_to_bias(d_bias, tile, d_scores)
        d_query.copy_(accumulated.mul_(call.scale).reshape(d_query.shape))
        if d_sink is not None:
            d_sink[block.query_heads] += rows.of_sinks()

    return (
        d_q.to(query.dtype),
        d_k.to(key.dtype),
        d_v.to(value.dtype),
        None if d_bias is None else d_bias.to(call.bias.dtype),  # pyright: ignore[reportAttributeAccessIssue]
        None if d_sink is None else d_sink.to(call.sink.dtype),
    )


class _BlockGradients:
    """The gradients of one block.

    Products use copies of q, k and do in which all that is not finite is 0: a hidden pair contributes 0 · x, which must not be
    0 · inf. Where the pair is visible, the other factor is NaN already.
    """

    def __init__(self, block: QueryBlock, value: Value, lse: Rows, d_output: Output, delta: Rows) -> None:
        self.block = block
        self.lse = block.rows_of(lse)
        self.delta = block.rows_of(delta)
        self.v = block.keys_of(value)
        self.d_out = block.rows_of(d_output)
        self.q, self.k, self.d_out_finite = (_finite(x) for x in (block.q, block.k, self.d_out))

    def of_scores(self, tile: ScoreTile) -> tuple[Float[Tensor, "n rt s"], Float[Tensor, "n rt s"], Float[Tensor, "n rt s"]]:
        """The weights, and the gradients of the scores after and before the cap; all exactly 0 where hidden."""
        raw = tile.raw_scores()
        cap = self.block.call.softcap
        derivative = None if cap is None else 1 - (raw / cap).tanh_().square_()
        scores = tile.cap_and_bias(raw)
        hidden = scores == -torch.inf if tile.hidden is not None else None
        weights = _zero(scores.sub_(self.lse[..., None]).exp_(), hidden)
        d_weights = self.d_out @ self.v[:, tile.keys].mT
        d_scores = _zero(d_weights.sub_(self.delta[..., None]).mul_(weights), hidden)
        return weights, d_scores, d_scores if derivative is None else _zero(derivative.mul_(d_scores), hidden)

    def of_values(self, tile: ScoreTile, weights: Float[Tensor, "n rt s"]) -> Float[Tensor, "n s E"]:
        d_value = weights.mT @ self.d_out_finite
        if self.d_out_finite is not self.d_out:
            not_finite = (~self.d_out.isfinite()).to(weights.dtype)
            d_value.masked_fill_(tile.visible().to(weights.dtype).mT @ not_finite > 0, torch.nan)
        return d_value

    def of_sinks(self) -> Float[Tensor, " h"]:
        """One number for each head of the block."""
        empty = self.lse == -torch.inf
        weight = _zero((self.block.sink - self.lse).exp_(), empty)  # pyright: ignore[reportOptionalOperand]
        return -self.block.split((weight * self.delta)[..., None]).sum((0, 3, 4)).flatten()


def _finite(x: Tensor) -> Tensor:
    return x if bool(x.isfinite().all()) else x.nan_to_num(0, 0, 0)


def _zero(x: Tensor, where: Tensor | None) -> Tensor:
    return x if where is None else x.masked_fill_(where, 0)


def _add_to_keys(whole: Float[Tensor, "B G S X"], tile: ScoreTile, part: Float[Tensor, "n s X"]) -> None:
    place = whole[tile.block.batch, tile.block.groups, tile.keys]
    place += part.reshape(place.shape)


def _add_to_bias(whole: Float[Tensor, "#B #H #T #S"], tile: ScoreTile, d_scores: Float[Tensor, "n rt s"]) -> None:
    """Add to the bias' gradient, summed over every axis along which the bias was broadcast."""
    block = tile.block
    part = block.split(d_scores).flatten(1, 2)
    place = (block.batch, block.query_heads, block.rows, tile.keys)
    broadcast = tuple(axis for axis, length in enumerate(whole.shape) if length == 1)
    if broadcast:
        part = part.sum(broadcast, keepdim=True)
    whole[tuple(slice(None) if axis in broadcast else place[axis] for axis in range(4))] += part
