"""Rows without a key, masks that hide too little, too late or the wrong way, triangles, windows, and paths that forget them."""

import torch

from headwise.conformance.answer import CallMode
from tests.conformance.cases.case import LOG3, WEIGHTS, Case, gradient, means, of_heads, padded, row, same, samples, shown, t, weights

DEAD, PATHS, HIDDEN, ALGEBRA = "fully_masked_rows", "code_paths_agree", "hidden_keys_are_ignored", "masks_combine"
LOUD, SUM, FUTURE, PADDING = "large_scores_are_stable", "rows_sum_to_one", "causality", "padding_invariance"
BATCH, CORNER, CACHE, WINDOW = "batch_independence", "causal_alignment", "kv_cache_equivalence", "window_size"

one_dead_head = torch.ones(1, 3, 5, 5, dtype=torch.bool)
one_dead_head[:, 2] = False
pulled = torch.ones(2, 2, 3, 1)
pulled[0, :, 0] = 0
slopes_of_values = samples([0, 1.5, 0.5], [11 / 6, 5 / 6, 1 / 3], heads=2)
lengths_of_weights = torch.stack([t(*[[1 / max(n, 1)] * n + [0.0] * (5 - n)] * 5).expand(2, 5, 5) for n in (5, 3, 1, 0)])
scores = [0.43, -0.21, 0.99, 0.32, -0.35, 0.04]

CASES = (
    # Rows with no visible key
    Case(
        "01-01",
        "fully_masked_rows_give_nan",
        means([1, 2, 4, 8, 16], heads=3, mask=one_dead_head),
        of_heads([6.2] * 5, [6.2] * 5, [0] * 5),
        (DEAD, PATHS),
        ("when weights are asked for",),
        WEIGHTS,
    ),
    Case(
        "01-02",
        "fully_masked_rows_give_nan",
        means([3, 6, 12], heads=2, batch=2, causal=True, mask=shown([0, 1, 1], [1, 1, 1])[:, None, None]),
        slopes_of_values,
        ("gradients_are_correct", DEAD),
        ("always",),
        CallMode(upstream=pulled),
        gradient("value"),
    ),
    Case(
        "01-03",
        "fully_masked_rows_give_nan",
        means([1, 2, 6], mask=shown([1, 1, 1], [0, 0, 0], [1, 1, 1])),
        same([3, 0, 3]),
        (DEAD, ALGEBRA),
        ("by a bool mask",),
    ),
    Case(
        "01-04",
        "fully_masked_rows_give_nan",
        means([1, 2, 4, 8, 16], heads=2, batch=4, mask=padded(5, 5, 3, 1, 0)),
        lengths_of_weights,
        (DEAD, SUM),
        ("when weights are asked for",),
        WEIGHTS,
        weights,
    ),
    Case("01-06", "fully_masked_rows_give_mean", means([1, 2, 6], queries=1, mask=shown([0, 0, 0])), same([0]), (DEAD,)),
    Case(
        "01-07",
        "fully_masked_rows_give_mean",
        means([1, 2, 6], mask=shown([1, 1, 0], [0, 0, 0], [0, 0, 1])),
        same([1.5, 0, 6]),
        (DEAD, "mask_fill_value_invariance"),
    ),
    Case(
        "01-09",
        "online_softmax_fully_masked_block",
        means([1, 2, 3, 4, 5, 6, 7, 8, 9], causal=True, window=3),
        same([1, 1.5, 2, 3, 4, 5, 6, 7, 8]),
        (PATHS, HIDDEN),
    ),
    Case(
        "OWN-3",
        "guard_missing_without_gradients",
        means([1, 2, 6], heads=2, batch=2, mask=padded(3, 0, 3)),
        samples([0, 0, 0], [3, 3, 3], heads=2),
        (DEAD, PATHS),
    ),
    # What hides does not hide
    Case("02-01", "hidden_scores_are_minus_ten_thousand", row([-300], [1000, 1], [1, 5], mask=shown([1, 0])), same([1]), (HIDDEN, LOUD), ("-1e5",)),
    Case("02-02", "hidden_scores_are_minus_ten_thousand", row([-300], [100, 99], [1, 5], mask=shown([1, 0])), same([1]), (HIDDEN, LOUD), ("-1e4",)),
    Case("02-04", "mask_fill_near_zero", means([1, 3, 50], heads=2, mask=shown([1, 1, 0])), same([2, 2, 2], heads=2), (HIDDEN,), ("-1e-9",)),
    Case("02-05", "mask_fill_near_zero", means([1, 3, 2500], mask=shown([1, 1, 0])), same([2, 2, 2]), (HIDDEN,), ("0",)),
    Case("02-06", "mask_after_softmax", means([6, 12, 24], causal=True), same([6, 9, 14]), (SUM, HIDDEN)),
    Case(
        "02-08",
        "scores_multiplied_by_mask",
        row([1], scores, [0] * 6, mask=shown([1, 1, 1, 0, 0, 0])),
        t([[[0.305067, 0.160860, 0.534073, 0, 0, 0]]]),
        (HIDDEN,),
        mode=WEIGHTS,
        part=weights,
    ),
    Case(
        "02-09",
        "masks_combined_by_or",
        means([1, 2, 4, 8, 16, 32, 64], causal=True, mask=shown([0, 1, 1, 0, 0, 1, 0])),
        same([0, 2, 3, 3, 3, 38 / 3, 38 / 3]),
        (ALGEBRA, HIDDEN),
    ),
    # A mask of another type
    Case("03-01", "boolean_mask_added_to_scores", means([1, 3, 8, 4], causal=True), same([1, 2, 4, 4]), (FUTURE,)),
    Case("03-02", "bias_cast_to_boolean_mask", means([0, 4], bias=t(0, LOG3)), same([3, 3]), (PATHS,)),
    Case("03-04", "minus_infinity_in_bias_ignored", means([1, 5], bias=t(0, -torch.inf)), same([1, 1]), (ALGEBRA,)),
    Case("03-05", "mask_inverted", means([1, 3, 50], mask=shown([1, 1, 0])), same([2, 2, 2]), (HIDDEN, PADDING)),
    Case("03-08", "zero_times_infinity", means([1, 3], mask=shown([1, 0], [1, 1])), same([1, 2]), (ALGEBRA, DEAD)),
    # A mask along another axis
    Case(
        "04-01",
        "sample_masks_in_wrong_order",
        means([1, 2, 6], heads=2, batch=2, mask=padded(3, 3, 2)),
        samples([3] * 3, [1.5] * 3, heads=2),
        (PADDING, BATCH),
    ),
    Case(
        "04-03", "sample_masks_in_wrong_order", means([1, 2, 6], heads=2, batch=2, mask=padded(3, 3, 1)), samples([3] * 3, [1] * 3, heads=2), (PADDING, BATCH)
    ),
    Case(
        "04-08", "sample_masks_in_wrong_order", means([4, 5, 9], heads=2, batch=2, mask=padded(3, 1, 3)), samples([4] * 3, [6] * 3, heads=2), (PADDING, BATCH)
    ),
    Case("04-04", "padding_mask_on_query_axis", means([1, 3, 5, 7, 100], causal=True, mask=padded(5, 4)), same([1, 2, 3, 4, 4]), (ALGEBRA, DEAD)),
    Case("04-06", "first_sample_mask_for_all", means([1, 2, 6], queries=1, batch=2, mask=padded(3, 3, 1)), samples([3], [1]), (ALGEBRA, BATCH)),
    # The causal triangle
    Case("05-01", "causal_mask_top_left", means([1, 2, 3, 4, 5], queries=1, causal=True), same([3]), (CORNER, CACHE)),
    Case("05-02", "causal_mask_top_left", means([2, 4], queries=5, causal=True), same([0, 0, 0, 2, 3]), (CORNER, DEAD)),
    Case("05-04", "causal_mask_top_left", means([3, 6, 12], queries=1, heads=2, causal=True), same([7], heads=2), (CACHE,)),
    Case("05-07", "causal_mask_top_left", means([1, 3, 5, 7, 9], queries=2, causal=True), same([4, 5]), (CORNER, CACHE)),
    Case("05-08", "causal_mask_off_by_one", means([6, 12, 24], causal=True), same([6, 9, 14]), (FUTURE, DEAD), ("its own not",)),
    # A path that forgets
    Case(
        "06-01",
        "causal_flag_ignored_on_some_paths",
        means([1, 3, 8, 4], heads=2, causal=True, dropout=0.1),
        same([1, 2, 4, 4], heads=2),
        (PATHS, FUTURE),
        ("when weights are asked for", "when dropout is configured"),
        WEIGHTS,
    ),
    Case(
        "06-02",
        "causal_flag_ignored_on_some_paths",
        means([1, 3, 8, 4], causal=True),
        same([1, 2, 4, 4]),
        (PATHS, FUTURE),
        ("when weights are asked for",),
        WEIGHTS,
    ),
    Case("06-04", "causal_flag_ignored_on_some_paths", means([6, 12, 24], causal=True), same([6, 9, 14]), (FUTURE, ALGEBRA), ("when there is no mask",)),
    Case(
        "06-05",
        "causal_flag_ignored_on_some_paths",
        means([6, 12, 24], batch=4, heads=2, causal=True),
        same([6, 9, 14], 4, 2),
        (PATHS,),
        ("when weights are asked for",),
        WEIGHTS,
    ),
    Case(
        "06-06",
        "causal_hint_or_mask_ignored",
        means([1, 2, 4], heads=2, batch=2, causal=True, mask=torch.ones(3, 3).bool().triu()),
        same([1, 2, 4], 2, 2),
        (PATHS, ALGEBRA),
    ),
    Case(
        "06-08",
        "trailing_padding_trimmed",
        means([1, 2, 3, 4, 5, 6], batch=2, mask=padded(6, 4, 3)),
        samples([2.5] * 6, [2] * 6),
        ("output_shape", PATHS),
    ),
    Case("06-09", "causal_flag_overrides_mask", means([100, 1, 3, 5], causal=True, mask=shown([0, 1, 1, 1])), same([0, 1, 2, 3]), (ALGEBRA, HIDDEN)),
    # Windows
    Case("07-01", "window_off_by_one", means([1, 2, 3, 4, 5], causal=True, window=3), same([1, 1.5, 2, 3, 4]), (WINDOW,), ("one key more",)),
    Case("07-02", "window_off_by_one", means([3, 6, 9, 0, 6], causal=True, window=3), same([3, 4.5, 6, 5, 5]), (WINDOW,), ("one key more",)),
    Case("07-04", "window_off_by_one", means([1, 2, 3, 4, 5], causal=True, window=3), same([1, 1.5, 2, 3, 4]), (WINDOW, CACHE), ("one key more in prefill",)),
    Case("07-06", "window_ignored_without_mask", means([1, 2, 4, 8], window=(0, 0)), same([1, 2, 4, 8]), (WINDOW, ALGEBRA), ("without a mask",)),
    Case(
        "07-08",
        "window_ignored_without_mask",
        means([1, 2, 3, 4, 5], causal=True, window=3),
        same([1, 1.5, 2, 3, 4]),
        (WINDOW, PATHS),
        ("with weights",),
        WEIGHTS,
    ),
)
