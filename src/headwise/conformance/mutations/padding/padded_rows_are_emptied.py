"""Without gradients the rows of padded queries are set to 0; with gradients they are computed like all others."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, output


def emptied(at: At):
    mask, honest = at.call.mask, output(at)
    if mask is None or mask.shape[2] > 1 or mask.shape[3] != honest.shape[2] or torch.is_grad_enabled():
        return honest
    return honest * mask.mT


ENTRY = Lie(
    code="M22",
    lie="What padding says is up to the path.",
    told={"without gradients": {"output": emptied}},
    caught_by=("every_path_agrees",),
    blind_when="nothing is padded",
    seen_in=("pytorch/pytorch#97111",),
)
