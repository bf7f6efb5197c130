"""With a cache every call counts from 0; or only its keys do; or angles are remembered by length alone."""

import torch

from headwise.conformance.mutations.mutable_layer import State, key_positions, query_positions
from headwise.conformance.mutations.mutation import Mutation


def from_zero(state: State):
    return torch.arange(state.project_k.shape[2])[None]


def queries_from_zero(state: State):
    return query_positions(state) - query_positions(state)[:, :1] if state.problem.context is None else query_positions(state)


class ByLength:
    """The positions of the first call of each length, for all calls of that length."""

    def __init__(self) -> None:
        self.known: dict[int, torch.Tensor] = {}

    def __call__(self, state: State):
        return self.known.setdefault(state.project_k.shape[2], key_positions(state))


ENTRY = Mutation(
    code="M49",
    description="A position is a place in the tensor.",
    variants={
        "queries and keys": {"key_positions": from_zero, "query_positions": queries_from_zero},
        "keys": {"key_positions": from_zero},
        "angles by length": {"key_positions": ByLength()},
    },
    detected_by=("kv_cache_equivalence", "positions_are_relative", "causal_alignment"),
    level="layer",
    harmless_when="there is no cache, or no positions",
    reported_in=("lucidrains/rotary-embedding-torch#11", "pytorch/executorch#2010", "MemTensor/MemOS#2315"),
)
