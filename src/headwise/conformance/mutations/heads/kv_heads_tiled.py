"""Key heads are tiled 0 1 0 1 where neighbours should share them, 0 0 1 1."""

import torch

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def in_turn(name: str):
    def read(state: State):
        x = getattr(state.problem, name)
        return x[:, torch.arange(state.problem.shape[1]) % x.shape[1]] if x.shape[1] else x

    return read


ENTRY = Mutation(
    code="M43",
    description="Tiling is repeating.",
    variants={"h % G": {"k": in_turn("key"), "v": in_turn("value")}},
    detected_by=("grouped_query_head_mapping", "golden_values", "head_matches_in_isolation"),
    harmless_when="G is 1 or H",
    reported_in=("onnx/onnx#7274", "apple/axlearn#842"),
)
