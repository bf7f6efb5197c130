"""With a cache there is no causal mask, though several tokens may come at once."""

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_layer import At, rules


def only_without_cache(at: At):
    honest = rules(at)
    return {**honest, "causal": honest["causal"] and not at.problem.chunks}


ENTRY = Lie(
    code="M55",
    lie="With a cache there is one new token, and it may see all.",
    told={"no mask with a cache": {"rules": only_without_cache}},
    caught_by=("cache_changes_nothing", "the_future_does_not_matter"),
    level="layer",
    blind_when="tokens come one by one",
    seen_in=("Mikyx-1/TinyLLM#17",),
)
