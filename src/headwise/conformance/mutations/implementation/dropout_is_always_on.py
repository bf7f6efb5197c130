"""Dropout is applied whatever the mode."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def dropped(at: At):
    return at.weights * torch.dropout(torch.ones_like(at.weights), at.problem.dropout, train=True)


ENTRY = Lie(
    code="M71",
    lie="Whoever passes a share wants it dropped.",
    told={"in evaluation too": {"kept": dropped}},
    caught_by=("dropout_is_for_training",),
    blind_when="dropout is 0",
    seen_in=("pytorch/pytorch#124464", "huggingface/pytorch-image-models#1978", "NVIDIA/torch-harmonics#221"),
)
