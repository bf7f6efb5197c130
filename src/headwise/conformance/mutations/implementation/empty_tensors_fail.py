"""An axis of length 0 raises, or gives NaN."""

import torch

from headwise.conformance.mutations.mutable_attention import State, call, output
from headwise.conformance.mutations.mutation import Mutation


def refused(state: State):
    if not all(state.problem.shape):
        raise ZeroDivisionError("integer division or modulo by zero")
    return call(state)


def nan(state: State):
    return output(state) if state.problem.shape[3] else torch.full_like(output(state), torch.nan)


ENTRY = Mutation(
    code="M73",
    description="There is always something.",
    variants={"an error": {"call": refused}, "NaN without keys": {"output": nan}},
    detected_by=("empty_tensors",),
    harmless_when="every axis has a length",
    reported_in=("pytorch/pytorch#141218", "Dao-AILab/flash-attention#1159"),
)
