"""No fault, where it is declared: key heads are read in turn, as some families of linear attention have it."""

import torch

from headwise.conformance.conventions import Conventions
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def in_turn(name: str):
    def read(state: State):
        x = getattr(state.problem, name)
        return x[:, torch.arange(state.problem.shape[1]) % x.shape[1]] if x.shape[1] else x

    return read


ENTRY = Mutation(
    code="E6",
    description="Key heads are tiled.",
    variants={"h % G": {"k": in_turn("key"), "v": in_turn("value")}},
    detected_by=(),
    harmless_when="the checkpoint is made so",
    reported_in=("ggml-org/llama.cpp#25315",),
    overrides={"conventions": Conventions(key_heads="in turn")},
)
