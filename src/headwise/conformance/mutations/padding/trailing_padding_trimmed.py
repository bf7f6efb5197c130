"""Without gradients tokens that are padding in every sample are dropped, and the output is shorter than the input."""

import torch

from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


def cut(state: State):
    mask, original = state.call.mask, output(state)
    if mask is None or mask.shape[2] > 1 or mask.shape[3] != original.shape[2] or torch.is_grad_enabled():
        return original
    return original[:, :, : int(mask.any(0).flatten().nonzero().max()) + 1]


ENTRY = Mutation(
    code="M22",
    description="Nobody misses padding.",
    variants={"without gradients": {"output": cut}},
    detected_by=("output_shape", "code_paths_agree"),
    harmless_when="some sample is not padded",
    reported_in=("pytorch/pytorch#97111",),
)
