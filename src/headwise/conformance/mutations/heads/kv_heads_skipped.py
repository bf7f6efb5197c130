"""Every query head reads key head 0; or a wrong divisor leaves the last key heads unread."""

import torch

from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def first(heads: int, groups: int):
    return torch.zeros(heads, dtype=torch.int64)


def wrong_divisor(heads: int, groups: int):
    share = heads // groups
    return torch.arange(heads) // share * share // groups


def read(which, name: str):
    def pick(state: State):
        x = getattr(state.problem, name)
        return x[:, which(state.problem.shape[1], x.shape[1])] if x.shape[1] else x

    return pick


def told(which):
    return {"k": read(which, "key"), "v": read(which, "value")}


ENTRY = Mutation(
    code="M44",
    description="Some key head will be read.",
    variants={"key head 0": told(first), "divided by G for H / G": told(wrong_divisor)},
    detected_by=("grouped_query_head_mapping", "head_matches_in_isolation"),
    harmless_when="G = 1",
    reported_in=("PSAL-POSTECH/ONNXim#34",),
)
