"""No fault, where it is declared: key heads are read in turn, as some families of linear attention have it."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.problems.conventions import Conventions


def in_turn(name: str):
    def read(at: At):
        x = getattr(at.problem, name)
        return x[:, torch.arange(at.problem.shape[1]) % x.shape[1]] if x.shape[1] else x

    return read


ENTRY = Lie(
    code="E6",
    lie="Key heads are tiled.",
    told={"h % G": {"k": in_turn("key"), "v": in_turn("value")}},
    caught_by=(),
    blind_when="the checkpoint is made so",
    seen_in=("ggml-org/llama.cpp#25315",),
    subject={"conventions": Conventions(key_heads="in turn")},
)
