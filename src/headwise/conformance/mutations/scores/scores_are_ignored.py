"""Queries and keys are not looked at: every visible key has the same weight."""

import torch

from headwise.attention.call import accumulation_dtype
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def flat(at: At):
    return torch.zeros(at.problem.shape, dtype=accumulation_dtype(at.q.dtype))


ENTRY = Lie(
    code="",
    lie="An average is attention enough.",
    told={"plain average": {"raw": flat}},
    caught_by=("heads_stand_alone", "scale_is_one_over_root_d", "error_stays_within_rounding", "golden_numbers"),
    blind_when="a row sees one key",
)
