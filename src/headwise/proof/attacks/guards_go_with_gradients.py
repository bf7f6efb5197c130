"""Without gradients a faster path is taken, and that one has no guard for rows that see nothing."""

import torch

from headwise.proof.attacks._plain import plain_mix, plain_softmax
from headwise.proof.call_way import At, weights, z
from headwise.proof.lie import Lie


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
