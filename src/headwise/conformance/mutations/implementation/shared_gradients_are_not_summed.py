"""The gradient of a key head is the mean over the query heads that share it, or that of the first."""

import torch

from headwise.attention.dense import repeat_kv
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At
from headwise.conformance.mutations.plain_steps import slower


def mean(name: str):
    def shared(at: At):
        x = getattr(at.problem, name)
        return repeat_kv(slower(x, x.shape[1] / max(at.problem.shape[1], 1)), at.problem.shape[1])

    return shared


def first(name: str):
    def shared(at: At):
        x, heads = getattr(at.problem, name), at.problem.shape[1]
        leads = (torch.arange(heads) % max(heads // max(x.shape[1], 1), 1) == 0)[None, :, None, None]
        return torch.where(leads, repeat_kv(x, heads), repeat_kv(x.detach(), heads))

    return shared


ENTRY = Lie(
    code="M68",
    lie="Who shares a key shares its gradient.",
    told={"mean": {"k": mean("key"), "v": mean("value")}, "the first": {"k": first("key"), "v": first("value")}},
    caught_by=("gradients_are_slopes", "neighbours_share_a_key_head"),
    blind_when="G = H",
    seen_in=("marin-community/levanter#449",),
)
