"""No fault: the softmax without the sink, times sigmoid(lse - sink), is the softmax with it."""

import torch

from headwise.attention.dense import softmax
from headwise.conformance.capabilities import ABILITIES, OPTIONS
from headwise.conformance.mutations.mutable_attention import State
from headwise.conformance.mutations.mutation import Mutation


def gated(state: State):
    alone = softmax(state.scores)[0]
    if state.call.sink is None or not state.scores.shape[-1]:
        return alone
    highest = state.scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(state.scores.dtype).min)
    lse = (highest + (state.scores - highest).exp().sum(-1, keepdim=True).clamp(min=1e-30).log()).squeeze(-1)
    return alone * (lse - state.call.sink[:, None].to(lse.dtype)).sigmoid()[..., None]


ENTRY = Mutation(
    code="E10",
    description="A gate is no sink.",
    variants={"sigmoid(lse - sink)": {"weights": gated}},
    detected_by=(),
    harmless_when="it is the same",
    overrides={"supports": frozenset({*OPTIONS, *ABILITIES}) - {"lse"}},  # a sigmoid of many numbers at once is not to the bit that of each
    reported_in=("pytorch/torchtitan#2211",),
)
