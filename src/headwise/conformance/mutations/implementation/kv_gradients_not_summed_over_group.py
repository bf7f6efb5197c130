"""The gradient of a key head is the mean over the query heads that share it, or that of the first."""

import torch

from headwise.attention.dense import repeat_kv
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import with_gradient_factor


def mean(name: str):
    def shared(state: State):
        x = getattr(state.problem, name)
        return repeat_kv(with_gradient_factor(x, x.shape[1] / max(state.problem.shape[1], 1)), state.problem.shape[1])

    return shared


def first(name: str):
    def shared(state: State):
        x, heads = getattr(state.problem, name), state.problem.shape[1]
        leads = (torch.arange(heads) % max(heads // max(x.shape[1], 1), 1) == 0)[None, :, None, None]
        return torch.where(leads, repeat_kv(x, heads), repeat_kv(x.detach(), heads))

    return shared


ENTRY = Mutation(
    code="M68",
    description="Who shares a key shares its gradient.",
    variants={"mean": {"k": mean("key"), "v": mean("value")}, "the first": {"k": first("key"), "v": first("value")}},
    detected_by=("gradients_are_correct", "grouped_query_head_mapping"),
    harmless_when="G = H",
    reported_in=("marin-community/levanter#449",),
)
