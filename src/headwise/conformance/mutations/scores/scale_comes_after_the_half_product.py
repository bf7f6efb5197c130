"""q·k is rounded to half precision first and scaled then: it overflows where the scaled score would not."""

import torch

from headwise.attention.dense import dot_product
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, raw
from headwise.conformance.mutations.plain_steps import plain_mix, plain_softmax


def scaled_last(at: At):
    if at.q.dtype != torch.float16:
        return raw(at)
    product = dot_product(at.q, at.k, at.seen)
    return product.half().to(product.dtype) * at.call.scale


ENTRY = Lie(
    code="M60",
    lie="It is the same to scale before or after.",
    told={"product, then scale": {"raw": scaled_last, "weights": plain_softmax, "z": plain_mix}},
    caught_by=("loud_scores_are_no_trouble", "error_stays_within_rounding"),
    blind_when="products stay below 65504, or the dtype is wider",
    seen_in=("philipturner/metal-flash-attention#8",),
)
