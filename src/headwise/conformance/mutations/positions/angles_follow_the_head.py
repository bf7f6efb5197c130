"""The rotation runs along the axis of the heads: every token of a head turns by the same angle, which does nothing."""

import torch

from headwise.attention.kv_cache import KVCache
from headwise.attention.position import Rotary
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, cache, q


def turned(x, position):
    heads = torch.arange(x.shape[1])[None]
    return position.rotate(x.transpose(1, 2), heads).transpose(1, 2)


def q_by_head(at: At):
    return turned(at.read_q, at.position) if isinstance(at.position, Rotary) else q(at)


def k_by_head(at: At):
    if not isinstance(at.position, Rotary):
        return cache(at)
    k = turned(at.read_k, at.position)
    return KVCache(k, at.read_v) if at.past is None else at.past.append(k, at.read_v)


ENTRY = Lie(
    code="M48",
    lie="Positions are counted along axis 1.",
    told={"by head": {"q": q_by_head, "cache": k_by_head}},
    caught_by=("only_distances_count", "order_of_keys_does_not_matter"),
    level="layer",
    blind_when="there are no rotary positions",
    seen_in=("mlfoundations/open_lm#4",),
)
