"""A text token by token: also where the first query stands at the first key, and a window cannot be said of one query alone."""

import pytest
import torch

from headwise.attention.attend import attend
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.conventions import Conventions
from headwise.conformance.invariants.masks.kv_cache_equivalence import ENTRY
from headwise.conformance.invariants.masks.padding_invariance import ENTRY as PADDING
from headwise.conformance.problems.problem_pool import make_problem


def subject(corner: str, reach: int = 0) -> CallSubject:
    """Right, or with windows that are longer by `reach`."""

    def compute(asked, mode):
        offset = 0 if corner == "top-left" and asked.query_offset is None else asked.query_offset
        window = asked.window + reach if isinstance(asked.window, int) else asked.window
        return attend(asked.query, asked.key, asked.value, causal=asked.causal, query_offset=offset, window=window, mask=asked.mask, bias=asked.bias)

    return CallSubject("windowed", compute, frozenset({"causal", "window", "mask", "bias", "groups"}), Conventions(corner=corner, weights="never"))


@pytest.mark.parametrize("corner", ["top-left", "bottom-right"])
def test_a_window_reaches_as_far_one_by_one_as_all_at_once(corner):
    problems = [*ENTRY.problems(subject(corner), "full"), make_problem(queries=5, causal=True, window=(1, None), bias=torch.randn(5, 5).double())]
    assert sum(one.window is not None for one in problems) > 2
    for one in problems:
        assert ENTRY.judge(subject(corner), one.to(torch.float32)) is None


def test_a_window_that_is_longer_all_at_once_is_seen():
    falls = [ENTRY.judge(subject("top-left", reach=1), one) for one in ENTRY.problems(subject("top-left"), "quick") if one.window is not None]
    assert any(fall is not None for fall in falls)


def test_rows_that_see_nothing_and_take_the_mean_are_means_of_what_is_there():
    def compute(asked, mode):
        seen = asked.visible(Conventions(dead_row="mean"))
        scores = (asked.query @ asked.key.mT * asked.query.shape[3] ** -0.5).masked_fill(~seen, -1e9)
        return scores.softmax(-1) @ asked.value

    averaging = CallSubject("averaging", compute, frozenset({"causal", "window", "mask"}), Conventions(dead_row="mean", weights="never"))
    for law in (ENTRY, PADDING):
        problems = law.problems(averaging, "full")
        assert any(not bool(one.visible().any(-1).all()) for one in problems)
        assert [law.judge(averaging, one) for one in problems if one.shape[1] == one.key.shape[1]] == [None] * len(problems)
