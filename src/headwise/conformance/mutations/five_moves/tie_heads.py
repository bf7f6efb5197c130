"""Every head reads the slices of head 0: rows are still softmaxes, heads still add up, and yet there is but one pattern.

How it happens: the projection is cut once, before the loop over heads, and not once a head.
"""

from dataclasses import replace

from headwise.conformance.exact.exact_trace import Layer, Slices, split
from headwise.conformance.mutations.attack import Attack


def first_for_all(layer: Layer, heads: int) -> Slices:
    honest = split(layer, heads)
    return replace(honest, **{name: getattr(honest, name)[:1] * heads for name in ("w_q", "w_k", "w_v")})


ENTRY = Attack(
    lie="All heads are the same head.",
    instead={"split": first_for_all},
    caught_by=("heads_are_independent",),
    blind_when="there is one head",
)
