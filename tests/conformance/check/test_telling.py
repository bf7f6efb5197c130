"""Findings in words: two numbers that differ are never printed the same."""

import pytest
import torch

from headwise.conformance.comparison.finding import Finding
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.report import Failure
from headwise.conformance.report.report_text import SHOWN, got_and_expected


def failure(got: torch.Tensor, right: torch.Tensor) -> Failure:
    problem = Problem(*(torch.zeros(1, 1, 1, 1) for _ in range(3)))
    where = tuple(int(i) for i in torch.unravel_index((got.double() - right.double()).abs().nan_to_num(0).argmax(), got.shape))
    return Failure("definition", "", "It is right.", Finding("wrong", problem, "It is not.", got, right, where), "", None, (), "")


@pytest.mark.parametrize(
    ("by", "got", "right"),
    [(0.25, "[[0.731059, 0.981059]]", "[[0.731059, 0.731059]]"), (2e-8, "[[0.731058579, 0.731058599]]", "[[0.731058579, 0.731058579]]")],
)
def test_as_many_digits_as_tell_the_sides_apart(by, got, right):
    true = torch.full((1, 2), 0.7310585786300049, dtype=torch.float64)
    found = got_and_expected(failure(true + torch.tensor([0, by], dtype=torch.float64), true))
    assert (found["got"], found["expected"]) == (got, right)


def test_the_worst_number_of_many():
    true = torch.full((1, SHOWN + 1), 0.7310585786300049, dtype=torch.float64)
    got = true.clone()
    got[0, 7] += 3e-11
    found = got_and_expected(failure(got, true))
    assert found == {"got": "0.73105857866 at [0, 7]", "expected": "0.73105857863"}
