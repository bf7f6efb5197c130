"""Without gradients a faster path is taken, and that one has no guard for rows that see nothing."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, weights, z
from headwise.conformance.mutations.plain_steps import plain_mix, plain_softmax


def unguarded(at: At):
    return weights(at) if torch.is_grad_enabled() else plain_softmax(at)


def unguarded_mix(at: At):
    return z(at) if torch.is_grad_enabled() else plain_mix(at)


ENTRY = Lie(
    code="M76",
    lie="Evaluation may take another path, since it computes the same.",
    told={"without gradients": {"weights": unguarded, "z": unguarded_mix}},
    caught_by=("dead_rows_are_as_declared", "every_path_agrees"),
    blind_when="every row sees a key",
    seen_in=("pytorch/pytorch#81077",),
)
