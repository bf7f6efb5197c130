"""Dropout is drawn once and used for every head."""

import torch

from headwise.conformance.mutations.mutable_attention import State, used_weights
from headwise.conformance.mutations.mutation import Mutation


def shared(state: State):
    if not (state.mode.training and state.problem.dropout):
        return used_weights(state)
    return state.weights * torch.dropout(torch.ones_like(state.weights[:, :1]), state.problem.dropout, train=True)


ENTRY = Mutation(
    code="",
    description="Noise is noise.",
    variants={"one key": {"used_weights": shared}},
    detected_by=("dropout_only_in_training",),
    harmless_when="there is one head, or dropout is off",
)
