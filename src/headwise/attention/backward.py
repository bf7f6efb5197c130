"""Gradients of output and lse, tile by tile: each tile's weights are made again from lse, so no T x S tensor is kept.

    dv = wᵀ·do      dw = do·vᵀ      ds = w ∘ (dw - δ)      δ = Σ do ∘ o - dlse
    dq = scale · ds·k               dk = scale · dsᵀ·q      (ds through the cap's slope first)
    dbias = ds                      dsink = -Σ w_sink · δ

Kernels whose own backward would gain nothing share this one.

References: Dao et al. 2022, algorithm 4; the terms of lse, cap and sink are ours.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from headwise.attention.blocking import Block, Strip, blocks
from headwise.attention.call import Attended, Call, no_autocast
from headwise.axes import Float, Key, Output, Query, Rows, Tensor, Value

Forward = Callable[[Query, Key, Value, Call, tuple[str, ...]], Attended]


def with_gradients(forward: Forward, query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    """What `forward` gives, with gradients of output and lse where something asks for them; statistics have none."""
    learned = [query, key, value, call.bias, call.sink]
    if not (torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in learned)):
        return forward(query, key, value, call, statistics)
    output, lse, *found = _Differentiable.apply(forward, *learned, call, statistics)  # pyright: ignore[reportGeneralTypeIssues]
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
    """Gradients of query, key, value, bias and sink; None for a bias or sink that the call lacks, or a bias in tiles."""
    wide = lse.dtype
    d_q, d_k, d_v = (torch.zeros(x.shape, dtype=wide, device=x.device) for x in (query, key, value))
    d_bias = torch.zeros_like(call.bias, dtype=wide) if isinstance(call.bias, Tensor) else None
    d_sink = None if call.sink is None else torch.zeros_like(call.sink, dtype=wide)
    delta = (d_output.to(wide) * output.to(wide)).sum(-1) - d_lse.to(wide)

    for block in blocks(query, key, call, wide):
        rows = _Rows(block, value, lse, d_output, delta)
        mine = d_q[block.batch, block.query_heads, block.rows]
        gathered = torch.zeros_like(block.q)
        for strip in block.strips():
            weights, d_scores, d_raw = rows.through(strip)
            _add_to_keys(d_v, strip, rows.to_values(strip, weights))
            _add_to_keys(d_k, strip, d_raw.mT @ rows.q)  # q is scaled already
            gathered.baddbmm_(d_raw, rows.k[:, strip.keys])
            if d_bias is not None:
                _add_to_bias(d_bias, strip, d_scores)
        mine.copy_(gathered.mul_(call.scale).reshape(mine.shape))
        if d_sink is not None:
            d_sink[block.query_heads] += rows.to_sinks()

    return (
        d_q.to(query.dtype),
        d_k.to(key.dtype),
        d_v.to(value.dtype),
        None if d_bias is None else d_bias.to(call.bias.dtype),  # pyright: ignore[reportAttributeAccessIssue]
        None if d_sink is None else d_sink.to(call.sink.dtype),
    )


class _Rows:
    """What the backward needs of a block's rows.

    Products run on copies of q, k and do in which everything that is not finite is 0: a hidden pair contributes 0 · x,
    which must not be 0 · inf. Where the pair is seen, the other factor is NaN already.
    """

    def __init__(self, block: Block, value: Value, lse: Rows, d_output: Output, delta: Rows) -> None:
        self.block = block
        self.lse = block.of_rows(lse)
        self.delta = block.of_rows(delta)
        self.v = block.of_keys(value)
        self.d_out = block.of_rows(d_output)
        self.q, self.k, self.d_out_clean = (_finite(x) for x in (block.q, block.k, self.d_out))

    def through(self, strip: Strip) -> tuple[Float[Tensor, "n rt s"], Float[Tensor, "n rt s"], Float[Tensor, "n rt s"]]:
        """Weights, and the gradients of the scores after and before the cap; all exactly 0 where hidden."""
        raw = strip.raw()
        cap = self.block.call.softcap
        slope = None if cap is None else 1 - (raw / cap).tanh_().square_()
        scores = strip.shape(raw)
        hidden = scores == -torch.inf if strip.hides else None
        weights = _zero(scores.sub_(self.lse[..., None]).exp_(), hidden)
        d_weights = self.d_out @ self.v[:, strip.keys].mT
        d_scores = _zero(d_weights.sub_(self.delta[..., None]).mul_(weights), hidden)
        return weights, d_scores, d_scores if slope is None else _zero(slope.mul_(d_scores), hidden)

    def to_values(self, strip: Strip, weights: Float[Tensor, "n rt s"]) -> Float[Tensor, "n s E"]:
        d_value = weights.mT @ self.d_out_clean
        if self.d_out_clean is not self.d_out:
            bad = (~self.d_out.isfinite()).to(weights.dtype)
            d_value.masked_fill_(strip.seen().to(weights.dtype).mT @ bad > 0, torch.nan)
        return d_value

    def to_sinks(self) -> Float[Tensor, " h"]:
        """One number for each head of the block."""
        dead = self.lse == -torch.inf
        share = _zero((self.block.sink - self.lse).exp_(), dead)  # pyright: ignore[reportOptionalOperand]
        return -self.block.split((share * self.delta)[..., None]).sum((0, 3, 4)).flatten()


def _finite(x: Tensor) -> Tensor:
    return x if bool(x.isfinite().all()) else x.nan_to_num(0, 0, 0)


def _zero(x: Tensor, where: Tensor | None) -> Tensor:
    return x if where is None else x.masked_fill_(where, 0)


def _add_to_keys(whole: Float[Tensor, "B G S X"], strip: Strip, part: Float[Tensor, "n s X"]) -> None:
    place = whole[strip.block.batch, strip.block.groups, strip.keys]
    place += part.reshape(place.shape)


def _add_to_bias(whole: Float[Tensor, "#B #H #T #S"], strip: Strip, d_scores: Float[Tensor, "n rt s"]) -> None:
    """Sum over every axis along which the bias was broadcast."""
    block = strip.block
    part = block.split(d_scores).flatten(1, 2)
    cut = (block.batch, block.query_heads, block.rows, strip.keys)
    shared = tuple(axis for axis, length in enumerate(whole.shape) if length == 1)
    if shared:
        part = part.sum(shared, keepdim=True)
    whole[tuple(slice(None) if axis in shared else cut[axis] for axis in range(4))] += part
