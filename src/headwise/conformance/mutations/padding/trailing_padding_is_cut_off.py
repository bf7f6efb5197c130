"""Without gradients tokens that are padding in every sample are dropped, and the output is shorter than the input."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


def cut(at: At):
    mask, honest = at.call.mask, output(at)
    if mask is None or mask.shape[2] > 1 or mask.shape[3] != honest.shape[2] or torch.is_grad_enabled():
        return honest
    return honest[:, :, : int(mask.any(0).flatten().nonzero().max()) + 1]


ENTRY = Lie(
    code="M22",
    lie="Nobody misses padding.",
    told={"without gradients": {"output": cut}},
    caught_by=("output_has_the_right_shape", "every_path_agrees"),
    blind_when="some sample is not padded",
    seen_in=("pytorch/pytorch#97111",),
)
