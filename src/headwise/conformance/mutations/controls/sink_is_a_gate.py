"""No fault: the softmax without the sink, times sigmoid(lse - sink), is the softmax with it."""

import torch

from headwise.attention.dense import softmax
from headwise.conformance.adapters.subject import ABILITIES, OPTIONS
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def gated(at: At):
    alone = softmax(at.scores)[0]
    if at.call.sink is None or not at.scores.shape[-1]:
        return alone
    highest = at.scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(at.scores.dtype).min)
    lse = (highest + (at.scores - highest).exp().sum(-1, keepdim=True).clamp(min=1e-30).log()).squeeze(-1)
    return alone * (lse - at.call.sink[:, None].to(lse.dtype)).sigmoid()[..., None]


ENTRY = Lie(
    code="E10",
    lie="A gate is no sink.",
    told={"sigmoid(lse - sink)": {"weights": gated}},
    caught_by=(),
    blind_when="it is the same",
    subject={"honours": frozenset({*OPTIONS, *ABILITIES}) - {"lse"}},  # a sigmoid of many numbers at once is not to the bit that of each
    seen_in=("pytorch/torchtitan#2211",),
)
