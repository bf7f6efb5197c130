"""Whatever scale is asked for, it is one over the root of D."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def usual(at: At):
    width = at.problem.query.shape[3]
    return replace(call(at), scale=width**-0.5) if width else call(at)


ENTRY = Lie(
    code="M28",
    lie="There is one scale.",
    told={"1/√D": {"call": usual}},
    caught_by=("scale_is_one_over_root_d", "any_real_scale"),
    blind_when="no scale is given",
    seen_in=("TransformerLensOrg/TransformerLens#694",),
)
