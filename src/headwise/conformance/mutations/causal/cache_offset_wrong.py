"""The length of the cache grows by the number of heads; or by the prompt twice; or before the queries were turned by it."""

import torch

from headwise.conformance.mutations.mutable_layer import State, query_positions
from headwise.conformance.mutations.mutation import Mutation


def counted(past):
    def place(state: State):
        start = 0 if state.past is None else past(state)
        return torch.arange(start, start + state.project_k.shape[2])[None]

    return place


def moved_in_between(state: State):
    return query_positions(state) + (state.query_tokens.shape[1] if state.past is not None else 0)


ENTRY = Mutation(
    code="M58",
    description="The second axis is the length.",
    variants={
        "by heads": {"key_positions": counted(lambda state: state.past.length * state.past.k.shape[1])},
        "by the prompt twice": {"key_positions": counted(lambda state: state.past.length + state.problem.chunks[0])},
        "between keys and queries": {"query_positions": moved_in_between},
    },
    detected_by=("kv_cache_equivalence", "positions_are_relative"),
    level="layer",
    harmless_when="there is no cache, or no positions",
    reported_in=("fla-org/flash-linear-attention#126", "ml-explore/mlx-lm#1699"),
)
