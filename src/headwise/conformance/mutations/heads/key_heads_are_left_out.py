"""Every query head reads key head 0; or a wrong divisor leaves the last key heads unread."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def first(heads: int, groups: int):
    return torch.zeros(heads, dtype=torch.int64)


def wrong_divisor(heads: int, groups: int):
    share = heads // groups
    return torch.arange(heads) // share * share // groups


def read(which, name: str):
    def pick(at: At):
        x = getattr(at.problem, name)
        return x[:, which(at.problem.shape[1], x.shape[1])] if x.shape[1] else x

    return pick


def told(which):
    return {"k": read(which, "key"), "v": read(which, "value")}


ENTRY = Lie(
    code="M44",
    lie="Some key head will be read.",
    told={"key head 0": told(first), "divided by G for H / G": told(wrong_divisor)},
    caught_by=("neighbours_share_a_key_head", "a_head_alone_is_single_head"),
    blind_when="G = 1",
    seen_in=("PSAL-POSTECH/ONNXim#34",),
)
