"""The prompt is counted from each text's first real token, and later steps by the length of the cache, the same for all."""

import torch

from headwise.axes import Int, Tensor
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, place_k, place_q


def padding(at: At) -> Int[Tensor, "#B 1"]:
    """How many tokens stand before the first real one."""
    mask = at.rules["mask"] if hasattr(at, "rules") else at.problem.mask
    whole = mask is not None and at.problem.context is None and mask.dim() == 4
    return mask[:, 0, 0].int().argmax(-1)[:, None] if whole else torch.zeros(1, 1, dtype=torch.int64)


def keys(at: At):
    return place_k(at) - padding(at) if at.past is None else place_k(at)


def queries(at: At):
    return place_q(at) - padding(at) if at.past is None else place_q(at)


ENTRY = Lie(
    code="M57",
    lie="In one step all texts are at the same place.",
    told={"by the cache": {"place_k": keys, "place_q": queries}},
    caught_by=("padding_does_not_matter", "batch_rows_stand_alone"),
    level="layer",
    blind_when="no text is padded on the left, or there are no positions",
    seen_in=("unslothai/unsloth#3795",),
)
