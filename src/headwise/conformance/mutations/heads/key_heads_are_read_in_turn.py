"""Key heads are tiled 0 1 0 1 where neighbours should share them, 0 0 1 1."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def in_turn(name: str):
    def read(at: At):
        x = getattr(at.problem, name)
        return x[:, torch.arange(at.problem.shape[1]) % x.shape[1]] if x.shape[1] else x

    return read


ENTRY = Lie(
    code="M43",
    lie="Tiling is repeating.",
    told={"h % G": {"k": in_turn("key"), "v": in_turn("value")}},
    caught_by=("neighbours_share_a_key_head", "golden_numbers", "a_head_alone_is_single_head"),
    blind_when="G is 1 or H",
    seen_in=("onnx/onnx#7274", "apple/axlearn#842"),
)
