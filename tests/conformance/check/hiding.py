"""Attentions that are wrong in one corner only: at a size, in a dtype, where two options meet, in the backward pass, by what they leave behind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import torch
from torch import nn

from headwise.axes import Tensor
from tests.conformance.check import strangers


@dataclass
class Call:
    """What one call was asked, and what has come of it so far."""

    query: Tensor
    key: Tensor
    value: Tensor
    causal: bool
    query_offset: Any
    window: int | None
    mask: Tensor | None
    bias: Tensor | None
    scale: float | None
    softcap: float | None

    @property
    def visible(self) -> Tensor:
        """True where a query sees a key, [B, 1 or H, T, S]."""
        queries, keys = self.query.shape[2], self.key.shape[2]
        start = torch.as_tensor(keys - queries if self.query_offset is None else self.query_offset).reshape(-1, 1, 1, 1)
        ahead = torch.arange(keys) - (start + torch.arange(queries)[:, None])
        seen = ahead <= 0 if self.causal else torch.ones_like(ahead, dtype=torch.bool)
        seen = seen if self.window is None else seen & (ahead > -self.window)
        seen = seen if self.mask is None else seen & self.mask
        return seen if self.bias is None else seen & (self.bias > -torch.inf)

    def output(self, seen: Tensor) -> Tensor:
        """The formula, in float32 at least."""
        wide = torch.float64 if self.query.dtype == torch.float64 else torch.float32
        query, key, value = (x.to(wide) for x in (self.query, self.key, self.value))
        scores = query @ key.mT * (query.shape[3] ** -0.5 if self.scale is None else self.scale)
        scores = scores if self.softcap is None else self.softcap * torch.tanh(scores / self.softcap)
        scores = scores if self.bias is None else scores + self.bias.masked_fill(self.bias == -torch.inf, 0.0)
        dead = ~seen.any(-1, keepdim=True)
        weights = scores.masked_fill(~(seen | dead), -torch.inf).softmax(-1).masked_fill(dead, 0.0)
        return (weights @ value).to(self.query.dtype)


Step = Callable[[Call, Tensor], Tensor]


def attention(call: Callable[[Call], Call] = lambda c: c, seen: Step = lambda c, s: s, output: Step = lambda c, z: z):
    """An attention that is right but for what is done to the call, to what is seen, or to the output."""

    def attend(query, key, value, *, causal=False, query_offset=None, window: int | None = None, mask=None, bias=None, scale=None, softcap=None):
        if isinstance(window, tuple):
            raise NotImplementedError("windows have one side.")
        ratio = query.shape[1] // key.shape[1] if key.shape[1] else 1
        key, value = (x.repeat_interleave(ratio, 1) for x in (key, value))
        told = call(Call(query, key, value, causal, query_offset, window, mask, bias, scale, softcap))
        return output(told, told.output(seen(told, told.visible)))

    return attend


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope / 2


def halved(name: str, where: Callable[[Call], bool]):
    """The gradient of one tensor is half of what it is, in some calls."""
    return attention(lambda c: replace(c, **{name: _Halved.apply(getattr(c, name))}) if where(c) else c)


def without_last(c: Call, seen: Tensor) -> Tensor:
    return seen & (torch.arange(c.key.shape[2]) < c.key.shape[2] - 1)


def hole(c: Call, z: Tensor, first: int) -> Tensor:
    """A row is 0 where it sees none of the first keys and there are more."""
    unseen = ~c.visible[..., :first].any(-1, keepdim=True)
    return z.masked_fill(unseen, 0.0) if c.key.shape[2] > first else z


def leak(c: Call, seen: Tensor) -> Tensor:
    """Query 31 sees key 32 where a triangle goes on."""
    seen = seen.clone()
    if c.causal and seen.shape[-2:] == (c.key.shape[2],) * 2 and c.key.shape[2] > 32 and c.mask is None and c.window is None:
        seen[..., 31, 32] = True
    return seen


def leaving(trace: Callable[[], Any]):
    """Right, but for what is left behind."""
    honest = attention()

    @wraps(honest)
    def attend(query, key, value, *, causal=False, mask=None):
        output = honest(query, key, value, causal=causal, mask=mask)
        trace()
        return output

    del attend.__wrapped__
    return attend


def _by_row(c: Call) -> bool:
    return isinstance(c.query_offset, Tensor) and c.query_offset.dim() > 0


WRONG: dict[str, Any] = {
    "more than 256 keys": attention(seen=lambda c, s: without_last(c, s) if c.key.shape[2] > 256 else s),
    "more than 512 keys": attention(seen=lambda c, s: without_last(c, s) if c.key.shape[2] > 512 else s),
    "64 keys": attention(seen=lambda c, s: without_last(c, s) if c.key.shape[2] == 64 else s),
    "32 queries and keys": attention(seen=lambda c, s: without_last(c, s) if c.query.shape[2] == c.key.shape[2] == 32 else s),
    "the edge of a block": attention(seen=leak),
    "row 256": attention(output=lambda c, z: torch.cat([z[:, :, :256], z[:, :, 255:256], z[:, :, 257:]], 2) if z.shape[2] > 256 else z),
    "the first 64 keys unseen": attention(output=lambda c, z: hole(c, z, 64)),
    "heads of 128": attention(lambda c: replace(c, query=torch.cat([c.query[..., :-1], 0 * c.query[..., -1:]], -1)) if c.query.shape[3] == 128 else c),
    "32 heads": attention(output=lambda c, z: torch.cat([z[:, :-1], z[:, :1]], 1) if z.shape[1] > 16 else z),
    "more than four texts": attention(output=lambda c, z: torch.cat([z[:-1], z[:1]]) if len(z) > 4 else z),
    "scales above 10": attention(lambda c: replace(c, scale=min(c.scale, 10.0)) if c.scale is not None else c),
    "scales below a thousandth": attention(lambda c: replace(c, scale=1e-3) if c.scale is not None and 0 < c.scale < 1e-3 else c),
    "caps above 40": attention(lambda c: replace(c, softcap=None) if c.softcap is not None and c.softcap > 40 else c),
    "large outputs": attention(output=lambda c, z: z.clamp(-1e4, 1e4)),
    "small outputs": attention(output=lambda c, z: z.masked_fill(z.abs() < 1e-6, 0.0)),
    "windows above 8": attention(lambda c: replace(c, window=None) if c.window is not None and c.window > 8 else c),
    "a window in decoding": attention(lambda c: replace(c, window=None) if c.query.shape[2] == 1 and c.query_offset is not None else c),
    "a mask beside an offset": attention(lambda c: replace(c, mask=None) if c.query_offset is not None else c),
    "a mask of one column": attention(lambda c: replace(c, mask=None) if c.mask is not None and c.mask.shape[-1] == 1 < c.key.shape[2] else c),
    "one key": attention(output=lambda c, z: c.value[:, :, :1].expand_as(z) if c.key.shape[2] == 1 else z),
    "offsets as a tensor": attention(
        lambda c: replace(c, query_offset=c.query_offset[:1]) if isinstance(c.query_offset, Tensor) and c.query_offset.dim() else c
    ),
    "bfloat16 is 2 % too large": attention(output=lambda c, z: (1.02 * z.float()).to(z.dtype) if z.dtype == torch.bfloat16 else z),
    "the gradient of many keys": halved("key", lambda c: c.key.shape[2] > 64),
    "the gradient of wide queries": halved("query", lambda c: c.query.shape[3] > 8),
    "the gradient in float32": halved("value", lambda c: c.value.dtype == torch.float32),
    "the gradient in bfloat16": halved("value", lambda c: c.value.dtype == torch.bfloat16),
    "the gradient with an offset": halved("value", lambda c: c.query_offset is not None),
    "the gradient of keys alone": attention(lambda c: c if c.query.requires_grad else replace(c, key=c.key.detach())),
    "another default dtype": leaving(lambda: torch.set_default_dtype(torch.float64)),
}


class Layer(nn.Module):
    """Four heads with maps of their own."""

    def __init__(self):
        super().__init__()
        self.num_heads = 4
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(16, 16) for _ in range(4))

    def attended(self, x, mask, context=None, turn=lambda heads: heads):
        context = x if context is None else context
        q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in (self.q_proj(x), self.k_proj(context), self.v_proj(context)))
        return self.o_proj(strangers.correct(turn(q), turn(k), v, mask=mask).transpose(1, 2).flatten(2))


class PaddingOfTheFirst(Layer):
    """The padding of the first text for all."""

    def forward(self, x, key_padding_mask=None):
        return self.attended(x, None if key_padding_mask is None else ~key_padding_mask[:1, None, None])


class ShortBuffer(Layer):
    """A triangle of 16 tokens: what comes after sees all."""

    def forward(self, x):
        tokens = x.shape[1]
        seen = torch.ones(tokens, tokens, dtype=torch.bool)
        seen[:16, :16] = seen[:16, :16].tril()
        return self.attended(x, seen)


class Padded(Layer):
    """Right, by the name that padding often has in modules."""

    def forward(self, x, key_padding_mask=None):
        return self.attended(x, None if key_padding_mask is None else ~key_padding_mask[:, None, None])


class Dropping(Layer):
    """Right, with dropout of its own."""

    def __init__(self):
        super().__init__()
        self.rest = nn.Dropout(0.1)

    def forward(self, x):
        return self.rest(self.attended(x, None))


class Normed(Layer):
    """Queries and keys are normed."""

    def __init__(self):
        super().__init__()
        self.q_norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.attended(x, None)


class Cross(Layer):
    """Looks elsewhere only."""

    def forward(self, x, context):
        return self.attended(x, None, context)


class Turned(Layer):
    """Always causal, with rotary positions."""

    def forward(self, x):
        tokens = x.shape[1]
        return self.attended(x, torch.ones(tokens, tokens, dtype=torch.bool).tril(), turn=turned)


def turned(x: Tensor) -> Tensor:
    """Features of the two halves turn in pairs, [B, H, T, 4]."""
    angle = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.01], dtype=x.dtype)
    one, other = x.chunk(2, -1)
    return torch.cat([one * angle.cos() - other * angle.sin(), other * angle.cos() + one * angle.sin()], -1)
