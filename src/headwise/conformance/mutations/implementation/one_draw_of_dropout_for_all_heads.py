"""Dropout is drawn once and used for every head."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, kept


def shared(at: At):
    if not (at.how.training and at.problem.dropout):
        return kept(at)
    return at.weights * torch.dropout(torch.ones_like(at.weights[:, :1]), at.problem.dropout, train=True)


ENTRY = Lie(
    code="",
    lie="Noise is noise.",
    told={"one key": {"kept": shared}},
    caught_by=("dropout_is_for_training",),
    blind_when="there is one head, or dropout is off",
)
