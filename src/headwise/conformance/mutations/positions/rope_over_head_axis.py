"""The rotation runs along the axis of the heads: every token of a head turns by the same angle, which does nothing."""

import torch

from headwise.attention.kv_cache import KVCache
from headwise.attention.position import Rotary
from headwise.conformance.mutations.mutable_layer import State, cache, q
from headwise.conformance.mutations.mutation import Mutation


def turned(x, position):
    heads = torch.arange(x.shape[1])[None]
    return position.rotate(x.transpose(1, 2), heads).transpose(1, 2)


def q_by_head(state: State):
    return turned(state.project_q, state.position) if isinstance(state.position, Rotary) else q(state)


def k_by_head(state: State):
    if not isinstance(state.position, Rotary):
        return cache(state)
    k = turned(state.project_k, state.position)
    return KVCache(k, state.project_v) if state.past is None else state.past.append(k, state.project_v)


ENTRY = Mutation(
    code="M48",
    description="Positions are counted along axis 1.",
    variants={"by head": {"q": q_by_head, "cache": k_by_head}},
    detected_by=("positions_are_relative", "key_permutation_invariance"),
    level="layer",
    harmless_when="there are no rotary positions",
    reported_in=("mlfoundations/open_lm#4",),
)
