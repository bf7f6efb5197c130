"""q·k is rounded to half precision first and scaled then: it overflows where the scaled score would not."""

import torch

from headwise.attention.dense import dot_product
from headwise.conformance.mutations.mutable_attention import State, raw_scores
from headwise.conformance.mutations.mutation import Mutation
from headwise.conformance.mutations.plain_steps import unguarded_mix, unguarded_softmax


def scaled_last(state: State):
    if state.q.dtype != torch.float16:
        return raw_scores(state)
    product = dot_product(state.q, state.k, state.visible)
    return product.half().to(product.dtype) * state.call.scale


ENTRY = Mutation(
    code="M60",
    description="It is the same to scale before or after.",
    variants={"product, then scale": {"raw_scores": scaled_last, "weights": unguarded_softmax, "z": unguarded_mix}},
    detected_by=("large_scores_are_stable", "error_within_rounding"),
    harmless_when="products stay below 65504, or the dtype is wider",
    reported_in=("philipturner/metal-flash-attention#8",),
)
