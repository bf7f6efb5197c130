"""What liars have in common: the steps without their guards."""

import torch

from headwise.attention.call import Call
from headwise.attention.dense import cap_and_bias, visible_plane
from headwise.attention.mask import positions
from headwise.axes import Bool, Int, Tensor
from headwise.conformance.mutations.mutable_attention import At


def unhidden(at: At) -> Tensor:
    """The scores as if nothing were hidden."""
    return cap_and_bias(at.raw, at.call, torch.ones_like(at.seen))


def plain_softmax(at: At) -> Tensor:
    """The softmax with the sink as a last column, and no thought for rows of nothing but -inf."""
    if at.call.sink is None:
        return at.scores.softmax(-1)
    logit = at.call.sink.to(at.scores.dtype)[:, None, None].expand(*at.scores.shape[:3], 1)
    return torch.cat([at.scores, logit], -1).softmax(-1)[..., :-1]


def plain_mix(at: At) -> Tensor:
    """weights · values, 0 · NaN and all."""
    return (at.kept @ at.v.to(at.kept.dtype)).to(at.v.dtype)


def place(at: At) -> tuple[Int[Tensor, "B 1 T 1"], Int[Tensor, " S"]]:
    """Where queries stand, and keys."""
    return positions(at.call, at.q.shape[2])[:, None, :, None], torch.arange(at.k.shape[2])


def seen_under(at: At, call: Call) -> Bool[Tensor, "..."]:
    """Who would see whom under another call."""
    return visible_plane(call, at.q.shape[2], at.k.shape[2])


def slower(x: Tensor, factor: float) -> Tensor:
    """The same numbers, with a gradient that is so many times as large."""
    return x * factor + (x - x * factor).detach()
