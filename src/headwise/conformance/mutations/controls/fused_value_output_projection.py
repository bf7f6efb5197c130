"""No fault: each head has one map from x to what it writes, w_v · w_o, and heads are summed."""

from torch import einsum

from headwise.attention.dense import repeat_kv
from headwise.conformance.mutations.mutable_layer import State, writes
from headwise.conformance.mutations.mutation import Mutation


def straight(state: State):
    heads = state.params.w_q.shape[1]
    said = einsum("bhse,hem->bhsm", repeat_kv(state.cache.v, heads), state.params.w_o)
    kept = state.attention.used_weights
    return einsum("bhts,bhsm->bhtm", kept.to(said.dtype), said) if bool(said.isfinite().all()) else writes(state)


ENTRY = Mutation(
    code="E1",
    description="Heads are summed and not concatenated.",
    variants={"v · w_o first": {"writes": straight}},
    detected_by=(),
    level="layer",
    harmless_when="it is the same: M3",
    reported_in=("awf/functional-transformer#8",),
)
