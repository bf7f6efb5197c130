"""The softmax has shared out the row before the mask is looked at; or the fill has the wrong sign."""

import torch

from headwise.conformance.mutations.mutable_attention import State, weights
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unmasked_scores


def hidden_afterwards(state: State):
    return weights(state) * state.visible


def plus_infinity(state: State):
    return unmasked_scores(state).masked_fill(~state.visible, torch.inf)


ENTRY = Mutation(
    code="M06",
    description="It is enough to set hidden weights to 0.",
    variants={
        "weights times mask": {"scores": unmasked_scores, "weights": hidden_afterwards},
        "filled with +inf": {"scores": plus_infinity, "z": unguarded_mix},
    },
    detected_by=("rows_sum_to_one", "hidden_keys_are_ignored"),
    harmless_when="nothing is hidden",
    reported_in=("lucidrains/memory-compressed-attention#2",),
)
