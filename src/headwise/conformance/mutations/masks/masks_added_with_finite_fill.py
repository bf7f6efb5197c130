"""Each mask is a plane of the smallest number; where two of them meet, the sum is minus infinity."""

from dataclasses import replace

import torch

from headwise.conformance.capabilities import ABILITIES, OPTIONS
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unmasked_scores, visible_under


def summed(state: State):
    least = torch.finfo(state.raw_scores.dtype).min
    by_mask = visible_under(state, replace(state.call, causal=False, window=None, bias=None))
    by_rule = visible_under(state, replace(state.call, mask=None, bias=None))
    return unmasked_scores(state) + (~by_mask * least + ~by_rule * least)


def unguarded(state: State):
    return state.scores.softmax(-1)


ENTRY = Mutation(
    code="M61",
    description="Masks add up.",
    variants={"min + min": {"scores": summed, "weights": unguarded, "z": unguarded_mix}},
    detected_by=("masks_combine", "fully_masked_rows"),
    harmless_when="every row sees a key",
    reported_in=("huggingface/transformers#27114",),
    overrides={"supports": frozenset({*OPTIONS, *ABILITIES}) - {"sink", "lse"}},
)
