"""Half precision, NaN, dropout, empty axes, and the last bits."""

import torch

from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.problems.problem import Problem
from tests.conformance.cases.case import Case, means, same, shown, t

LOUD, ROUNDING, EMPTY, DROPOUT = "large_scores_are_stable", "error_within_rounding", "empty_tensors", "dropout_only_in_training"


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


poisoned = means([5, 1], mask=shown([1, 0])).replace(value=t(5, torch.nan).reshape(1, 1, 2, 1))
spoilt = means([1, 3], heads=4, batch=2).replace(query=torch.full((2, 4, 2, 1), torch.nan))
dropping, pulled = means([1, 2, 4], dropout=0.25), torch.ones(1, 1, 3, 1)
evaluated = means([1, 3, 5, 7, 9, 11, 13, 15], dropout=0.5)

CASES = (
    Case("19-01", "scores_in_half_precision", half([200, -200], [1, 2]), same([1, 2]), (LOUD, ROUNDING)),
    Case("19-02", "scale_after_half_precision_product", half([60, 60], [1, 3]), same([2, 2]), (LOUD, ROUNDING)),
    Case(
        "19-05",
        "masks_added_with_finite_fill",
        means([1, 2, 4, 8, 16], causal=True, mask=shown([0, 0, 0, 1, 1])),
        same([0, 0, 0, 8, 12]),
        ("masks_combine", "fully_masked_rows"),
    ),
    Case("19-07", "hidden_nan_values_leak", poisoned, same([5, 5]), ("nan_in_hidden_positions_is_ignored",)),
    Case("19-08", "nan_replaced_by_zero", spoilt, same([torch.nan] * 2, 2, 4), ("nan_propagation",)),
    # Dropout
    Case(
        "21-01",
        "dropout_backward_wrong_factor",
        dropping,
        torch.tensor(0.0),
        ("gradients_are_correct", DROPOUT),
        mode=CallMode(upstream=pulled, training=True, seed=1),
        part=balance(dropping.value, pulled),
    ),
    Case("22-01", "dropout_in_evaluation", evaluated, same([8] * 8), (DROPOUT,)),
    Case("22-02", "dropout_in_evaluation", evaluated.replace(dropout=0.25), same([8] * 8), (DROPOUT,)),
    Case("22-04", "dropout_in_evaluation", evaluated.replace(scale=0.5), same([8] * 8), (DROPOUT,)),
    # Empty axes
    Case("23-01", "empty_tensors_fail", nothing(1, 0, 2), torch.zeros(1, 0, 2, 1), (EMPTY,), ("an error",)),
    Case("23-02", "empty_tensors_fail", nothing(0, 2, 3), torch.zeros(0, 2, 3, 1), (EMPTY,), ("an error",)),
    Case("23-04", "single_sample_batch_dropped", means([1, 3]), same([2, 2]), ("output_shape",)),
    # The last bits: what is right is what a row gives alone, to the bit, and the law says so
    Case("24-01", "summation_order_depends_on_batch", means([0.1, 0.2, 0.7, 0.4], queries=1, batch=2), None, ("batch_independence",)),
)
