"""Half-precision inputs have half-precision scores, and those end at 65504."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, raw
from headwise.conformance.mutations.plain_steps import plain_mix, plain_softmax


def in_half(at: At):
    honest = raw(at)
    return honest.half().to(honest.dtype) if at.q.dtype == torch.float16 else honest


ENTRY = Lie(
    code="M59",
    lie="Scores fit where queries fit.",
    told={"after the scale": {"raw": in_half, "weights": plain_softmax, "z": plain_mix}},
    caught_by=("loud_scores_are_no_trouble", "error_stays_within_rounding"),
    blind_when="scaled scores stay below 65504, or the dtype is wider",
    seen_in=("pytorch/pytorch#60940",),
)
