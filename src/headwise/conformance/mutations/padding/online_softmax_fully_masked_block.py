"""Keys are taken in blocks; where the first block of a row is hidden whole, minus infinity is taken from minus infinity."""

import torch

from headwise.conformance.mutations.mutable_attention import State, weights, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix

BLOCK = 2


def in_blocks(state: State):
    if state.mode.weights or not state.scores.shape[-1]:
        return weights(state)
    highest = torch.full(state.scores.shape[:3], -torch.inf, dtype=state.scores.dtype)
    mass, total = state.scores[..., :0], torch.zeros_like(highest)
    for block in state.scores.split(BLOCK, -1):
        new = torch.maximum(highest, block.amax(-1))
        part, shrink = (block - new[..., None]).exp(), (highest - new).exp()
        mass, total, highest = torch.cat([mass * shrink[..., None], part], -1), total * shrink + part.sum(-1), new
    if state.call.sink is not None:
        total = total + (state.call.sink.to(total.dtype)[:, None] - highest).exp()
    return mass / total[..., None]


ENTRY = Mutation(
    code="M03",
    description="The running maximum of a softmax in blocks is a number from the first block on.",
    variants={"blocks of 2": {"weights": in_blocks, "z": lambda state: z(state) if state.mode.weights else unguarded_mix(state)}},
    detected_by=("hidden_keys_are_ignored", "code_paths_agree"),
    harmless_when="no row has its first block hidden",
    reported_in=("pytorch/pytorch#127055",),
)
