"""A causal hint comes with a mask: one path looks at the hint only, the other at the mask only."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def one_of_them(at: At):
    honest = call(at)
    if not honest.causal or honest.mask is None:
        return honest
    return replace(honest, causal=False) if at.how.weights else replace(honest, mask=None)


ENTRY = Lie(
    code="M21",
    lie="A hint says the same as the mask.",
    told={"by weights": {"call": one_of_them}},
    caught_by=("every_path_agrees", "masks_combine"),
    blind_when="the mask is the causal one",
    seen_in=("pytorch/pytorch#178588",),
)
