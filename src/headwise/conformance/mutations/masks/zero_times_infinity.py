"""A mask is made into a bias by multiplying (1 - mask) with minus infinity: where it shows, 0 · -inf."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, scores, z
from headwise.conformance.mutations.plain_steps import plain_mix, unhidden


def multiplied(at: At):
    return scores(at) if at.call.mask is None else unhidden(at) + (1 - at.seen.to(at.raw.dtype)) * -torch.inf


ENTRY = Lie(
    code="M12",
    lie="0 times anything is 0.",
    told={"(1 - mask) times -inf": {"scores": multiplied, "z": lambda at: z(at) if at.call.mask is None else plain_mix(at)}},
    caught_by=("masks_combine", "dead_rows_are_as_declared", "hidden_keys_do_not_matter"),
    blind_when="there is no mask",
    seen_in=("onnx/onnx#8068",),
)
