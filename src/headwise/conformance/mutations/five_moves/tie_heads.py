"""Every head reads the slices of head 0: rows are still softmaxes, heads still add up, and yet there is but one pattern.

How it happens: the projection is cut once, before the loop over heads, and not once a head.
"""

from dataclasses import replace

from headwise.conformance.exact.exact_trace import ExactLayer, Slices, split
from headwise.conformance.mutations.mutation import Mutation


def first_for_all(layer: ExactLayer, heads: int) -> Slices:
    original = split(layer, heads)
    return replace(original, **{name: getattr(original, name)[:1] * heads for name in ("w_q", "w_k", "w_v")})


ENTRY = Mutation(
    description="All heads are the same head.",
    variants={"": {"split": first_for_all}},
    level="exact",
    detected_by=("heads_are_independent",),
    harmless_when="there is one head",
)
