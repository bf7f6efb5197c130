"""Without gradients a faster path is taken, and that one has no guard for rows that see nothing."""

import torch

from headwise.conformance.mutations.mutable_attention import State, weights, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unguarded_softmax


def softmax_without_guard(state: State):
    return weights(state) if torch.is_grad_enabled() else unguarded_softmax(state)


def mix_without_guard(state: State):
    return z(state) if torch.is_grad_enabled() else unguarded_mix(state)


ENTRY = Mutation(
    code="M76",
    description="Evaluation may take another path, since it computes the same.",
    variants={"without gradients": {"weights": softmax_without_guard, "z": mix_without_guard}},
    detected_by=("fully_masked_rows", "code_paths_agree"),
    harmless_when="every row sees a key",
    reported_in=("pytorch/pytorch#81077",),
)
