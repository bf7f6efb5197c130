"""Keys are taken in blocks; where the first block of a row is hidden whole, minus infinity is taken from minus infinity."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, weights, z
from headwise.conformance.mutations.plain_steps import plain_mix

BLOCK = 2


def in_blocks(at: At):
    if at.how.weights or not at.scores.shape[-1]:
        return weights(at)
    highest = torch.full(at.scores.shape[:3], -torch.inf, dtype=at.scores.dtype)
    mass, total = at.scores[..., :0], torch.zeros_like(highest)
    for block in at.scores.split(BLOCK, -1):
        new = torch.maximum(highest, block.amax(-1))
        part, shrink = (block - new[..., None]).exp(), (highest - new).exp()
        mass, total, highest = torch.cat([mass * shrink[..., None], part], -1), total * shrink + part.sum(-1), new
    if at.call.sink is not None:
        total = total + (at.call.sink.to(total.dtype)[:, None] - highest).exp()
    return mass / total[..., None]


ENTRY = Lie(
    code="M03",
    lie="The running maximum of a softmax in blocks is a number from the first block on.",
    told={"blocks of 2": {"weights": in_blocks, "z": lambda at: z(at) if at.how.weights else plain_mix(at)}},
    caught_by=("hidden_keys_do_not_matter", "every_path_agrees"),
    blind_when="no row has its first block hidden",
    seen_in=("pytorch/pytorch#127055",),
)
