"""Scales, caps, sinks, and weights that are shown."""

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.problems.problem import Problem
from tests.conformance.cases.case import LOG3, WEIGHTS, Case, means, of_heads, row, same, shown, t, weights

SCALE, REAL, PATHS, SUM, USED = "default_scale", "explicit_scale", "code_paths_agree", "rows_sum_to_one", "returned_weights_match_output"
SINK = "attention_sink"


def wide(width: int, product: float, **options) -> Problem:
    """Two heads; scores before the scale are 0 and `product`, of values 0 and 4."""
    q = torch.ones(1, 2, 1, width)
    k = torch.stack([torch.zeros(width), torch.full((width,), product / width)]).expand(1, 2, 2, width)
    return Problem(q, k, t([[0], [4]]).expand(1, 2, 2, 1), **options)


gates = torch.stack([torch.full((2, 2), 1 / (2 + 2.718281828459045**sink)) for sink in (10.0, -10.0)])[None]

CASES = (
    Case("08-01", "scale_uses_d_model", wide(4, 2 * LOG3), of_heads([3], [3]), (SCALE,)),
    Case("08-03", "scale_exponent_wrong", wide(4, 2 * LOG3), of_heads([3], [3]), (SCALE,), ("√D",)),
    Case("08-04", "scale_exponent_wrong", wide(4, 2 * LOG3), of_heads([3], [3]), (SCALE, PATHS), ("1 where weights are asked for",), WEIGHTS),
    Case("08-06", "scale_argument_ignored", wide(256, 8 * LOG3, scale=1 / 8), of_heads([3], [3]), (SCALE, REAL)),
    Case("08-08", "scale_sign_lost", row([1], [0, 2 * LOG3], [0, 4], scale=-0.5), same([1]), (REAL,)),
    Case("08-09", "mask_before_scale", row([1, 1], [1, 1], [1, 3], causal=True, scale=-1.0), same([1, 2]), (REAL, "causality")),
    Case(
        "OWN-1",
        "mask_before_scale",
        row([1, 1], [1, 1], [1, 3], causal=True, scale=0.0),
        same([1, 2]),
        (REAL, PATHS, "causality"),
        ("the triangle",),
    ),
    # Along which axis
    Case("12-01", "softmax_over_wrong_axis", row([1, 0], [0, LOG3], [0, 4]), t([[[0.25, 0.75], [0.5, 0.5]]]), (SUM,), ("queries",), WEIGHTS, weights),
    Case(
        "12-03",
        "softmax_over_wrong_axis",
        row([1, 0, 1], [0, LOG3, 0], [0, 4, 0]),
        t([[[0.2, 0.6, 0.2], [1 / 3] * 3, [0.2, 0.6, 0.2]]]),
        (SUM,),
        ("heads", "batch"),
        WEIGHTS,
        weights,
    ),
    # What is shown
    Case(
        "13-01",
        "returned_weights_after_dropout",
        means([1, 3], dropout=0.2),
        t([[[0.5, 0.5], [0.5, 0.5]]]),
        (SUM, USED),
        mode=CallMode(weights=True, training=True, seed=3),
        part=weights,
    ),
    Case(
        "13-02",
        "returned_weights_averaged",
        means([1, 3], queries=1, heads=2, mask=shown([1, 0], [0, 1])[None, :, None]),
        t([[[1.0, 0]], [[0, 1]]]),
        (USED, "heads_do_not_interact"),
        mode=WEIGHTS,
        part=weights,
    ),
    # Cap and sinks
    Case(
        "17-01",
        "softcap_after_mask",
        means([1, 3, 100], softcap=2.0, mask=shown([1, 1, 0])),
        same([2, 2, 2]),
        ("score_modifier_order", "hidden_keys_are_ignored"),
    ),
    Case("17-03", "returned_weights_ignore_sink", means([1, 3], heads=2, sink=t(10, -10)), gates, (SINK, USED), mode=WEIGHTS, part=weights),
    Case(
        "17-05",
        "sink_miscounted",
        means([4, 8, 50, 90], queries=1, sink=t(0.6931471805599453), mask=shown([1, 1, 0, 0])),
        same([3]),
        (SINK, "batch_independence"),
        ("twice where a split is idle",),
    ),
)
