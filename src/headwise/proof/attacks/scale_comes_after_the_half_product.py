"""q·k is rounded to half precision first and scaled then: it overflows where the scaled score would not."""

import torch

from headwise.attention.materialise import dot
from headwise.proof.attacks._plain import plain_mix, plain_softmax
from headwise.proof.call_way import At, raw
from headwise.proof.lie import Lie


def scaled_last(at: At):
    if at.q.dtype != torch.float16:
        return raw(at)
    product = dot(at.q, at.k, at.seen)
    return product.half().to(product.dtype) * at.call.scale


ENTRY = Lie(
    code="M60",
    lie="It is the same to scale before or after.",
    told={"product, then scale": {"raw": scaled_last, "weights": plain_softmax, "z": plain_mix}},
    caught_by=("loud_scores_are_no_trouble", "error_stays_within_rounding"),
    blind_when="products stay below 65504, or the dtype is wider",
    seen_in=("philipturner/metal-flash-attention#8",),
)
