"""No fault: each head has one map from x to what it writes, w_v · w_o, and heads are summed."""

from torch import einsum

from headwise.attention.dense import repeat_kv
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, writes


def straight(at: At):
    heads = at.maps.w_q.shape[1]
    said = einsum("bhse,hem->bhsm", repeat_kv(at.cache.v, heads), at.maps.w_o)
    kept = at.inside.kept
    return einsum("bhts,bhsm->bhtm", kept.to(said.dtype), said) if bool(said.isfinite().all()) else writes(at)


ENTRY = Lie(
    code="E1",
    lie="Heads are summed and not concatenated.",
    told={"v · w_o first": {"writes": straight}},
    caught_by=(),
    level="layer",
    blind_when="it is the same: M3",
    seen_in=("awf/functional-transformer#8",),
)
