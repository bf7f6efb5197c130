"""Steps that several mutations share: those of a naive implementation, without guards for fully masked rows."""

import torch

from headwise.attention.call import Call
from headwise.attention.dense import cap_and_bias, visible_plane
from headwise.attention.mask import positions
from headwise.axes import Bool, Int, Tensor
from headwise.conformance.mutations.mutable_attention import State


def unmasked_scores(state: State) -> Tensor:
    """The scores as if nothing were hidden."""
    return cap_and_bias(state.raw_scores, state.call, torch.ones_like(state.visible))


def unguarded_softmax(state: State) -> Tensor:
    """The softmax with the sink as a last column, NaN for fully masked rows."""
    if state.call.sink is None:
        return state.scores.softmax(-1)
    logit = state.call.sink.to(state.scores.dtype)[:, None, None].expand(*state.scores.shape[:3], 1)
    return torch.cat([state.scores, logit], -1).softmax(-1)[..., :-1]


def unguarded_mix(state: State) -> Tensor:
    """weights · values, where 0 · NaN is NaN."""
    return (state.used_weights @ state.v.to(state.used_weights.dtype)).to(state.v.dtype)


def positions_of(state: State) -> tuple[Int[Tensor, "B 1 T 1"], Int[Tensor, " S"]]:
    """The positions of the queries, and of the keys."""
    return positions(state.call, state.q.shape[2])[:, None, :, None], torch.arange(state.k.shape[2])


def visible_under(state: State, call: Call) -> Bool[Tensor, "..."]:
    """What would be visible under other options."""
    return visible_plane(call, state.q.shape[2], state.k.shape[2])


def with_gradient_factor(x: Tensor, factor: float) -> Tensor:
    """The same numbers, with a gradient multiplied by a factor."""
    return x * factor + (x - x * factor).detach()
