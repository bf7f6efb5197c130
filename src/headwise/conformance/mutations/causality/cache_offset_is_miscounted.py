"""The length of the cache grows by the number of heads; or by the prompt twice; or before the queries were turned by it."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, place_q


def counted(past):
    def place(at: At):
        start = 0 if at.past is None else past(at)
        return torch.arange(start, start + at.read_k.shape[2])[None]

    return place


def moved_in_between(at: At):
    return place_q(at) + (at.asks.shape[1] if at.past is not None else 0)


ENTRY = Lie(
    code="M58",
    lie="The second axis is the length.",
    told={
        "by heads": {"place_k": counted(lambda at: at.past.length * at.past.k.shape[1])},
        "by the prompt twice": {"place_k": counted(lambda at: at.past.length + at.problem.chunks[0])},
        "between keys and queries": {"place_q": moved_in_between},
    },
    caught_by=("cache_changes_nothing", "only_distances_count"),
    level="layer",
    blind_when="there is no cache, or no positions",
    seen_in=("fla-org/flash-linear-attention#126", "ml-explore/mlx-lm#1699"),
)
