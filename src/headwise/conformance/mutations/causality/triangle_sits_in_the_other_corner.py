"""With a past, the causal triangle begins at the first key: one new query sees key 0 and no other."""

from dataclasses import replace

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def at_the_start(at: At):
    honest = call(at)
    usual = at.problem.causal and at.problem.query_offset is None
    return replace(honest, offset=torch.zeros_like(honest.offset)) if usual else honest


ENTRY = Lie(
    code="M17",
    lie="The first query stands at the first key.",
    told={"top-left": {"call": at_the_start}},
    caught_by=("corner_is_as_declared", "cache_changes_nothing"),
    blind_when="T = S",
    seen_in=("pytorch/pytorch#144858", "pytorch/pytorch#108108", "google/flax#5591", "Dao-AILab/flash-attention#282"),
)
