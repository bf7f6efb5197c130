"""Without gradients the rows of padded queries are set to 0; with gradients they are computed like all others."""

import torch

from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


def emptied(state: State):
    mask, original = state.call.mask, output(state)
    if mask is None or mask.shape[2] > 1 or mask.shape[3] != original.shape[2] or torch.is_grad_enabled():
        return original
    return original * mask.mT


ENTRY = Mutation(
    code="M22",
    description="What padding says is up to the path.",
    variants={"without gradients": {"output": emptied}},
    detected_by=("code_paths_agree",),
    harmless_when="nothing is padded",
    reported_in=("pytorch/pytorch#97111",),
)
