"""With a cache there is no causal mask, though several tokens may come at once."""

from headwise.conformance.mutations.mutable_layer import State, options
from headwise.conformance.mutations.mutation import Mutation


def only_without_cache(state: State):
    original = options(state)
    return {**original, "causal": original["causal"] and not state.problem.chunks}


ENTRY = Mutation(
    code="M55",
    description="With a cache there is one new token, and it may see all.",
    variants={"no mask with a cache": {"options": only_without_cache}},
    detected_by=("kv_cache_equivalence", "causality"),
    level="layer",
    harmless_when="tokens come one by one",
    reported_in=("Mikyx-1/TinyLLM#17",),
)
