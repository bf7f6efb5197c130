"""Half precision, NaN, dropout, empty axes, and the last bits."""

import torch

from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.problems.problem import Problem
from tests.conformance.cases.case import Case, means, same, shown, t

LOUD, ROUNDING, EMPTY, DROPOUT = "loud_scores_are_no_trouble", "error_stays_within_rounding", "empty_sizes_are_sizes", "dropout_is_for_training"


def half(rows_of_q: list, v: list) -> Problem:
    """64 features alike, in float16; the keys are the queries."""
    x = t(*rows_of_q)[None, None, :, None].expand(1, 1, len(rows_of_q), 64).half()
    return Problem(x, x, t(*v).reshape(1, 1, -1, 1).half())


def nothing(*shape: int, tokens: int = 3) -> Problem:
    """Axes of some length 0."""
    batch, heads, queries = shape
    return Problem(torch.zeros(batch, heads, queries, 2), torch.zeros(batch, heads, tokens, 2), torch.ones(batch, heads, tokens, 1))


def balance(values: torch.Tensor, upstream: torch.Tensor):
    """The output is linear in the values, so that values · their gradient less output · upstream is 0, whatever was dropped."""

    def look(answer: Answer) -> torch.Tensor:
        return (answer.gradients["value"] * values).sum() - (answer.output * upstream).sum()

    return look


poisoned = means([5, 1], mask=shown([1, 0])).having(value=t(5, torch.nan).reshape(1, 1, 2, 1))
spoilt = means([1, 3], heads=4, batch=2).having(query=torch.full((2, 4, 2, 1), torch.nan))
dropping, pulled = means([1, 2, 4], dropout=0.25), torch.ones(1, 1, 3, 1)
evaluated = means([1, 3, 5, 7, 9, 11, 13, 15], dropout=0.5)

CASES = (
    Case("19-01", "scores_are_kept_in_half_precision", half([200, -200], [1, 2]), same([1, 2]), (LOUD, ROUNDING)),
    Case("19-02", "scale_comes_after_the_half_product", half([60, 60], [1, 3]), same([2, 2]), (LOUD, ROUNDING)),
    Case(
        "19-05",
        "two_masks_are_added",
        means([1, 2, 4, 8, 16], causal=True, mask=shown([0, 0, 0, 1, 1])),
        same([0, 0, 0, 8, 12]),
        ("masks_combine", "dead_rows_are_as_declared"),
    ),
    Case("19-07", "hidden_values_leak", poisoned, same([5, 5]), ("poison_stays_out",)),
    Case("19-08", "nan_is_swept_away", spoilt, same([torch.nan] * 2, 2, 4), ("nan_stays_in_its_row",)),
    # Dropout
    Case(
        "21-01",
        "dropout_backward_multiplies",
        dropping,
        torch.tensor(0.0),
        ("gradients_are_slopes", DROPOUT),
        how=How(upstream=pulled, training=True, seed=1),
        look=balance(dropping.value, pulled),
    ),
    Case("22-01", "dropout_is_always_on", evaluated, same([8] * 8), (DROPOUT,)),
    Case("22-02", "dropout_is_always_on", evaluated.having(dropout=0.25), same([8] * 8), (DROPOUT,)),
    Case("22-04", "dropout_is_always_on", evaluated.having(scale=0.5), same([8] * 8), (DROPOUT,)),
    # Empty axes
    Case("23-01", "empty_sizes_fail", nothing(1, 0, 2), torch.zeros(1, 0, 2, 1), (EMPTY,), ("an error",)),
    Case("23-02", "empty_sizes_fail", nothing(0, 2, 3), torch.zeros(0, 2, 3, 1), (EMPTY,), ("an error",)),
    Case("23-04", "one_row_becomes_none", means([1, 3]), same([2, 2]), ("output_has_the_right_shape",)),
    # The last bits: what is right is what a row gives alone, to the bit, and the law says so
    Case("24-01", "sums_depend_on_the_batch", means([0.1, 0.2, 0.7, 0.4], queries=1, batch=2), None, ("batch_rows_stand_alone",)),
)
