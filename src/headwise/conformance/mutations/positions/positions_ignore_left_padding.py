"""The prompt is counted from each text's first real token, and later steps by the length of the cache, the same for all."""

import torch

from headwise.axes import Int, Tensor
from headwise.conformance.mutations.mutable_layer import State, key_positions, query_positions
from headwise.conformance.mutations.mutation import Mutation


def padding(state: State) -> Int[Tensor, "#B 1"]:
    """How many tokens stand before the first real one."""
    mask = state.options["mask"] if hasattr(state, "rules") else state.problem.mask
    whole = mask is not None and state.problem.context is None and mask.dim() == 4
    return mask[:, 0, 0].int().argmax(-1)[:, None] if whole else torch.zeros(1, 1, dtype=torch.int64)


def keys(state: State):
    return key_positions(state) - padding(state) if state.past is None else key_positions(state)


def queries(state: State):
    return query_positions(state) - padding(state) if state.past is None else query_positions(state)


ENTRY = Mutation(
    code="M57",
    description="In one step all texts are at the same place.",
    variants={"by the cache": {"key_positions": keys, "query_positions": queries}},
    detected_by=("padding_invariance", "batch_independence"),
    level="layer",
    harmless_when="no text is padded on the left, or there are no positions",
    reported_in=("unslothai/unsloth#3795",),
)
