"""Rows come back in reverse, but only where there are more than three."""

from headwise.conformance.mutations.mutable_attention import State, output
from headwise.conformance.mutations.mutation import Mutation


def backwards(state: State):
    return output(state).flip(2) if state.q.shape[2] > 3 else output(state)


ENTRY = Mutation(
    code="",
    description="Three tokens are a good test.",
    variants={"T > 3": {"output": backwards}},
    detected_by=("kv_cache_equivalence", "error_within_rounding", "causality"),
    harmless_when="T ≤ 3",
)
