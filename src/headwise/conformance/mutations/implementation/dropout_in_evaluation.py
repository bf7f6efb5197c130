"""Dropout is applied whatever the mode."""

import torch

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def dropped(state: State):
    return state.weights * torch.dropout(torch.ones_like(state.weights), state.problem.dropout, train=True)


ENTRY = Mutation(
    code="M71",
    description="Whoever passes a share wants it dropped.",
    variants={"in evaluation too": {"used_weights": dropped}},
    detected_by=("dropout_only_in_training",),
    harmless_when="dropout is 0",
    reported_in=("pytorch/pytorch#124464", "huggingface/pytorch-image-models#1978", "NVIDIA/torch-harmonics#221"),
)
