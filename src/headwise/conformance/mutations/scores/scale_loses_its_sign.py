"""The root of the scale goes to queries and keys, so that its sign is lost, or NaN."""

import torch

from headwise.attention.dense import dot_product
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At


def without_sign(at: At):
    return dot_product(at.q, at.k, at.seen) * abs(at.call.scale)


def rooted(at: At):
    root = torch.tensor(at.call.scale, dtype=torch.float64).sqrt()
    return dot_product((at.q * root).to(at.q.dtype), (at.k * root).to(at.k.dtype), at.seen)


ENTRY = Lie(
    code="M29",
    lie="Scales are positive.",
    told={"|scale|": {"raw": without_sign}, "√scale on q and k": {"raw": rooted}},
    caught_by=("any_real_scale",),
    blind_when="the scale is positive",
    seen_in=("pytorch/pytorch#105202",),
)
