"""With a cache every call counts from 0; or only its keys do; or angles are remembered by length alone."""

import torch

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, place_k, place_q


def from_zero(at: At):
    return torch.arange(at.read_k.shape[2])[None]


def queries_from_zero(at: At):
    return place_q(at) - place_q(at)[:, :1] if at.problem.context is None else place_q(at)


class ByLength:
    """The positions of the first call of each length, for all calls of that length."""

    def __init__(self) -> None:
        self.known: dict[int, torch.Tensor] = {}

    def __call__(self, at: At):
        return self.known.setdefault(at.read_k.shape[2], place_k(at))


ENTRY = Lie(
    code="M49",
    lie="A position is a place in the tensor.",
    told={
        "queries and keys": {"place_k": from_zero, "place_q": queries_from_zero},
        "keys": {"place_k": from_zero},
        "angles by length": {"place_k": ByLength()},
    },
    caught_by=("cache_changes_nothing", "only_distances_count", "corner_is_as_declared"),
    level="layer",
    blind_when="there is no cache, or no positions",
    seen_in=("lucidrains/rotary-embedding-torch#11", "pytorch/executorch#2010", "MemTensor/MemOS#2315"),
)
