"""With a cache the causal mask is cut to T x T, where it needs a column for every key."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, rules


def cut(at: At):
    honest = rules(at)
    if at.past is None or not honest["causal"]:
        return honest
    first = (torch.arange(at.cache.length) < at.asks.shape[1])[None, None, None]
    return {**honest, "mask": first if honest["mask"] is None else honest["mask"] & first}


ENTRY = Lie(
    code="M55",
    lie="A mask is square.",
    told={"T x T": {"rules": cut}},
    caught_by=("cache_changes_nothing", "corner_is_as_declared"),
    level="layer",
    blind_when="there is no cache",
    seen_in=("rasbt/LLMs-from-scratch#697",),
)
