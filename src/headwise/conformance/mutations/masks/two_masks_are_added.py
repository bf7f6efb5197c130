"""Each mask is a plane of the smallest number; where two of them meet, the sum is minus infinity."""

from dataclasses import replace

import torch

from headwise.conformance.adapters.subject import ABILITIES, OPTIONS
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.mutations.plain_steps import plain_mix, seen_under, unhidden


def summed(at: At):
    least = torch.finfo(at.raw.dtype).min
    by_mask = seen_under(at, replace(at.call, causal=False, window=None, bias=None))
    by_rule = seen_under(at, replace(at.call, mask=None, bias=None))
    return unhidden(at) + (~by_mask * least + ~by_rule * least)


def unguarded(at: At):
    return at.scores.softmax(-1)


ENTRY = Lie(
    code="M61",
    lie="Masks add up.",
    told={"min + min": {"scores": summed, "weights": unguarded, "z": plain_mix}},
    caught_by=("masks_combine", "dead_rows_are_as_declared"),
    blind_when="every row sees a key",
    seen_in=("huggingface/transformers#27114",),
    subject={"honours": frozenset({*OPTIONS, *ABILITIES}) - {"sink", "lse"}},
)
