"""An axis of length 0 raises, or gives NaN."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call, output


def refused(at: At):
    if not all(at.problem.shape):
        raise ZeroDivisionError("integer division or modulo by zero")
    return call(at)


def nan(at: At):
    return output(at) if at.problem.shape[3] else torch.full_like(output(at), torch.nan)


ENTRY = Lie(
    code="M73",
    lie="There is always something.",
    told={"an error": {"call": refused}, "NaN without keys": {"output": nan}},
    caught_by=("empty_sizes_are_sizes",),
    blind_when="every axis has a length",
    seen_in=("pytorch/pytorch#141218", "Dao-AILab/flash-attention#1159"),
)
