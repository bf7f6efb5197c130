"""Grouped heads, axes that are taken for others, and layouts in memory."""

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.problems.problem import Problem
from tests.conformance.cases.case import Case, gradient, means, of_heads, t

GROUPS, SHAPE, LAYOUT, GOLDEN, SLOPES = (
    "grouped_query_head_mapping",
    "output_shape",
    "memory_layout_invariance",
    "golden_values",
    "gradients_are_correct",
)


def numbered(heads: int, groups: int, tokens: int = 1, queries: int = 1) -> Problem:
    """The values of key head g are all g."""
    v = torch.arange(float(groups))[None, :, None, None].expand(1, groups, tokens, 1).contiguous()
    return Problem(torch.zeros(1, heads, queries, 1), torch.zeros_like(v), v)


def seen_from(values: torch.Tensor) -> Problem:
    """Scores of 0 on values [B, H, S, E], however they lie."""
    return Problem(torch.zeros(*values.shape[:3], 1), torch.zeros(*values.shape[:3], 1), values)


across = seen_from(t([[[1], [3]], [[10], [20]]]))
two_texts = means([1, 3, 8], causal=True).replace(
    query=torch.zeros(1, 4, 3, 1), key=torch.zeros(1, 2, 3, 1), value=t([[1], [3], [8]], [[10], [30], [80]])[None]
)
merged_back = t([[1, 2], [3, 4]]).reshape(1, 2, 2, 1).transpose(1, 2)  # [B, T, H, E] as the heads see it
first_of_one = t(*range(1, 34)).reshape(1, 1, 33, 1).bfloat16().expand(1, 2, 33, 1)

CASES = (
    Case("09-06", "attention_over_head_axis", across, of_heads([2, 2], [15, 15]), ("heads_do_not_interact", "key_permutation_invariance")),
    Case("14-01", "kv_heads_tiled", numbered(4, 2), of_heads([0], [0], [1], [1]), (GROUPS,)),
    Case("14-03", "kv_heads_tiled", numbered(6, 2, tokens=5), of_heads(*[[0]] * 3, *[[1]] * 3), (GROUPS, GOLDEN)),
    Case("14-04", "kv_heads_skipped", numbered(8, 4), of_heads(*([n // 2] for n in range(8))), (GROUPS,)),
    Case("14-05", "kv_repeated_along_sequence", two_texts, of_heads(*[[1, 2, 4]] * 2, *[[10, 20, 40]] * 2), (GROUPS, SHAPE), ("and left so",)),
    Case("20-01", "strides_ignored", seen_from(t([[1, 2], [3, 4]]).reshape(1, 2, 2, 1).transpose(1, 2)), of_heads([2, 2], [3, 3]), (LAYOUT,)),
    Case("20-02", "strides_ignored", seen_from(t(*range(1, 10)).reshape(1, 3, 3, 1).transpose(1, 2)), of_heads([4] * 3, [5] * 3, [6] * 3), (LAYOUT,)),
    Case(
        "20-05",
        "last_key_dropped",
        Problem(torch.zeros(1, 2, 1, 1).bfloat16(), torch.zeros_like(first_of_one[:, :1]).expand(1, 2, 33, 1), first_of_one),
        of_heads([17], [17]),
        (LAYOUT, GROUPS),
        within=0.2,
    ),
    Case(
        "20-06",
        "output_uses_query_head_dim",
        Problem(torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), t([[1, 10], [3, 20]])[None]),
        t([[[2, 15], [2, 15]]]),
        (SHAPE,),
    ),
    Case(
        "21-02",
        "kv_gradients_not_summed_over_group",
        means([1, 3], heads=2).replace(query=torch.zeros(1, 4, 2, 1)),
        t([[[2], [2]], [[2], [2]]]),
        (SLOPES, GROUPS),
        mode=CallMode(upstream=torch.ones(1, 4, 2, 1)),
        part=gradient("value"),
    ),
    Case(
        "21-04",
        "upstream_gradient_assumed_contiguous",
        means([1, 3], heads=2),
        of_heads([2, 2], [3, 3]),
        (SLOPES, LAYOUT),
        ("upstream",),
        CallMode(upstream=merged_back),
        gradient("value"),
    ),
    Case(
        "21-06",
        "upstream_gradient_assumed_contiguous",
        means([1, 3], heads=2, causal=True),
        of_heads([2.5, 1.5], [4, 2]),
        (SLOPES, "code_paths_agree"),
        ("without weights",),
        CallMode(upstream=merged_back),
        gradient("value"),
    ),
)
