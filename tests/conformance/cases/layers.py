"""Heads split and merged, maps read and packed, positions, and caches."""

from math import e, exp, sin

import torch

from headwise.attention.position import Alibi, Rotary
from headwise.conformance.problems.layer_problem import LayerProblem
from tests.conformance.cases.case import LOG3, WEIGHTS, Case, columns, layer, looking_at_all, shown, t, writes

ALONE, WRITES, ORDER, BATCH, GOLDEN = "heads_do_not_interact", "output_projection_per_head", "key_permutation_invariance", "batch_independence", "golden_values"
GROUPS, SHAPE, USED, DISTANCES = "grouped_query_head_mapping", "output_shape", "returned_weights_match_output", "positions_are_relative"
CACHE, CORNER, SAME, PADDING, FUTURE = (
    "kv_cache_equivalence",
    "causal_alignment",
    "determinism",
    "padding_invariance",
    "causality",
)

two_of_two = torch.eye(4).reshape(4, 2, 2)  # each head reads two features of four, as they are
four_wide = t([[1, 2, 7, 4], [5, 6, 9, 8]])
two_samples = torch.stack([torch.arange(12.0).reshape(2, 6), torch.arange(12.0).reshape(2, 6) * 10])

tokens = torch.eye(2)[None]
two_patterns = layer(
    tokens, t([[1], [0]], [[0], [0]]), t([[0], [0]], [[LOG3], [LOG3]]), t([[0], [0]], [[4], [4]]), columns(2)
)  # head 0 asks with its first token, head 1 with none

some = torch.arange(16.0).reshape(4, 4, 1) / 8
fused = layer(t([[1, 2, 3, 4], [0, 1, 0, 1]]), some, some[:, :2] - 1, torch.zeros(4, 2, 1), columns(4), b_v=t([5], [7]))
crossed = looking_at_all(tokens, t([[1, 2]], [[3, 4]]), t([[1, 0], [10, 1]]))


def turned(pairing: str = "halves", heads: int = 1, at: tuple[int, ...] = (0, 1), length: int = 2, **options) -> LayerProblem:
    """Feature 0 at one position and feature 2 at another, zeros elsewhere; the value of feature 2 is 1, and each head writes in its own column."""
    x = torch.zeros(1, length, 4)
    x[0, at[0], 0] = x[0, at[1], 2] = 1
    each = torch.eye(4)[:, None].expand(4, heads, 4)
    w_v, w_o = torch.zeros(4, heads, 1), torch.zeros(heads, 1, 4)
    w_v[2] = 1
    w_o[torch.arange(heads), 0, torch.arange(heads)] = 1
    return layer(x, each, each, w_v, w_o, causal=True, scale=1.0, position=Rotary(pairing=pairing), **options)


def last(share: float, heads: int = 1, length: int = 2):
    """All rows are 0 but the last, which gives the share of its own value."""
    right = torch.zeros(1, length, 4)
    right[0, -1, :heads] = share
    return right


APART = 1 / (1 + exp(-sin(1) - 1))  # scores -sin(1) one position before, and 1
AS_ALONE = 1 / (1 + exp(0 - 1))


def leaning(x: list, slope: float = LOG3, **options) -> LayerProblem:
    """One head of width 1 whose scores are the slope times the distance."""
    return looking_at_all(t(*x)[None, :, None], torch.ones(1, 1, 1), torch.ones(1, 1, 1), causal=True, position=Alibi((slope,)), **options)


def averaging(*texts: list, **options) -> LayerProblem:
    """One head of width 1: each token gets the mean of what it sees."""
    return looking_at_all(t(*texts)[..., None], torch.ones(1, 1, 1), torch.ones(1, 1, 1), causal=True, **options)


def rows(*texts: list):
    return t(*texts)[..., None]


def sloped(slopes: list[float]) -> tuple[LayerProblem, torch.Tensor]:
    """Two tokens; the one before has the value 1, and the weight 1/(1 + e^slope)."""
    heads = len(slopes)
    x, w_v = torch.zeros(1, 2, heads), torch.zeros(heads, heads, 1)
    x[0, 0, 0], w_v[0] = 1, 1
    return looking_at_all(x, w_v, columns(heads), causal=True, position=Alibi()), t([[1] * heads, [1 / (1 + exp(slope)) for slope in slopes]])


alibi_of_three, sloped_by_three = sloped([1 / 16, 1 / 256, 1 / 4])
elsewhere = layer(tokens, torch.zeros(2, 1, 1), torch.zeros(1, 1, 1), torch.ones(1, 1, 1), t([[1, 2]]), context=t([[1], [2], [9]]))

two_fragments = turned(at=(0, 3), length=4, chunks=(2, 2))
after_three = last(e / (e + 2 + exp(-sin(3))), length=4)

left_padded = turned(at=(1, 2), length=3, chunks=(2, 1), mask=shown([0, 1, 1])[:, None, None])

CASES = (
    Case(
        "09-01",
        "split_heads_without_transpose",
        looking_at_all(four_wide, two_of_two, columns(2, 2)),
        t([[3, 4, 8, 6], [3, 4, 8, 6]]),
        (WRITES, ALONE, ORDER),
        ("view(B, H, T, D)",),
    ),
    Case(
        "09-02",
        "merge_heads_without_transpose",
        looking_at_all(four_wide, two_of_two, columns(2, 2), causal=True),
        t([[1, 2, 7, 4], [3, 4, 8, 6]]),
        (WRITES, ORDER),
        ("reshape",),
    ),
    Case(
        "09-04",
        "merge_heads_without_transpose",
        looking_at_all(two_samples, torch.eye(6).reshape(6, 3, 2), columns(3, 2)),
        torch.stack([t(*[[3, 4, 5, 6, 7, 8]] * 2), t(*[[30, 40, 50, 60, 70, 80]] * 2)]),
        (BATCH, WRITES),
        ("view(H, B, T, E)",),
    ),
    Case("09-07", "query_projection_shared_by_heads", two_patterns, t([[3, 2], [2, 2]]), (ALONE, GOLDEN)),
    Case("10-01", "packed_qkv_split_wrong", fused, t([[5, 5, 7, 7], [5, 5, 7, 7]]), (GROUPS, GOLDEN), ("equal thirds",)),
    Case("10-05", "packed_qkv_split_wrong", fused, t([[5, 5, 7, 7], [5, 5, 7, 7]]), (GOLDEN, GROUPS), ("blocks for groups",)),
    Case("10-03", "weight_matrix_transposed", crossed, t([[32, 3], [32, 3]]), (GOLDEN, SHAPE)),
    Case("11-01", "output_projection_missing", looking_at_all(t([[1, 4], [3, 8]]), torch.eye(2)[:, :, None], 2 * columns(2)), t([[4, 12], [4, 12]]), (WRITES,)),
    Case(
        "11-03",
        "output_projection_missing",
        looking_at_all(t([[1, 4], [3, 8]]), torch.eye(2)[:, None].expand(2, 2, 2), torch.eye(2).expand(2, 2, 2)),
        t([[4, 12], [4, 12]]),
        (SHAPE, WRITES),
    ),
    Case(
        "13-04",
        "reported_writes_are_summed",
        looking_at_all(four_wide, two_of_two, columns(2, 2)),
        t([[[3, 4, 0, 0], [3, 4, 0, 0]], [[0, 0, 8, 6], [0, 0, 8, 6]]]),
        (WRITES, USED),
        mode=WEIGHTS,
        part=writes,
    ),
    # Positions
    Case("15-01", "rope_pairing_mismatch", turned("halves"), last(APART), (GOLDEN,)),
    Case("15-03", "rope_pairing_mismatch", turned("neighbours"), last(AS_ALONE), (GOLDEN,)),
    Case("15-05", "rope_over_head_axis", turned(), last(APART), (DISTANCES, ORDER)),
    Case("15-06", "positions_restart_with_cache", turned(chunks=(1, 1)), last(APART), (CACHE, SAME), ("angles by length",)),
    Case("15-07", "positions_restart_with_cache", turned(chunks=(1, 1)), last(APART), (CACHE,), ("queries and keys",)),
    Case("15-08", "positions_restart_with_cache", two_fragments, after_three, (CACHE, DISTANCES), ("keys",)),
    Case("16-01", "alibi_slopes_wrong", alibi_of_three, sloped_by_three, (GOLDEN,), ("one series for any H",)),
    Case("16-03", "position_bias_ignores_cache", leaning([0, 4], chunks=(1, 1)), rows([0, 3]), (CORNER, CACHE)),
    Case("16-05", "position_bias_in_cross_attention", elsewhere, t([[4, 8], [4, 8]]), (GOLDEN, ORDER)),
    # Caches
    Case("18-01", "no_causal_mask_with_cache", averaging([6, 12, 24], chunks=(3,)), rows([6, 9, 14]), (CACHE, FUTURE)),
    Case(
        "18-02",
        "padding_mask_dropped_in_decoding",
        averaging([100, 100, 2, 4], [1, 3, 5, 7], mask=shown([0, 0, 1, 1], [1] * 4)[:, None, None], chunks=(3, 1)),
        rows([0, 0, 2, 3], [1, 2, 3, 4]),
        (PADDING, BATCH),
    ),
    Case("18-04", "positions_ignore_left_padding", left_padded, last(APART, length=3), (PADDING, BATCH)),
    Case("18-05", "causal_mask_cropped_to_new_tokens", averaging([1, 2, 4, 8], chunks=(3, 1)), rows([1, 1.5, 7 / 3, 3.75]), (CACHE,)),
    Case("18-06", "cache_offset_wrong", turned(heads=2, chunks=(1, 1)), last(APART, heads=2), (CACHE,), ("by heads",)),
    Case("18-08", "cache_offset_wrong", turned(chunks=(1, 1)), last(APART), (DISTANCES, CACHE), ("between keys and queries",)),
)
