"""Scores are divided by the root of the model's width, not of a head's."""

from dataclasses import replace

from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import At, call


def of_all_heads(at: At):
    _, heads, _, width = at.problem.query.shape
    return replace(call(at), scale=(heads * width) ** -0.5) if at.problem.scale is None and heads else call(at)


ENTRY = Lie(
    code="M26",
    lie="d is the width of the model.",
    told={"1/√(H·D)": {"call": of_all_heads}},
    caught_by=("scale_is_one_over_root_d",),
    blind_when="there is one head",
    seen_in=("lucidrains/vit-pytorch#65",),
)
