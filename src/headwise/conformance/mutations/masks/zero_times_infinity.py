"""A mask is made into a bias by multiplying (1 - mask) with minus infinity: where it shows, 0 · -inf."""

import torch

from headwise.conformance.mutations.mutable_attention import State, scores, z
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unmasked_scores


def multiplied(state: State):
    return scores(state) if state.call.mask is None else unmasked_scores(state) + (1 - state.visible.to(state.raw_scores.dtype)) * -torch.inf


ENTRY = Mutation(
    code="M12",
    description="0 times anything is 0.",
    variants={"(1 - mask) times -inf": {"scores": multiplied, "z": lambda state: z(state) if state.call.mask is None else unguarded_mix(state)}},
    detected_by=("masks_combine", "fully_masked_rows", "hidden_keys_are_ignored"),
    harmless_when="there is no mask",
    reported_in=("onnx/onnx#8068",),
)
