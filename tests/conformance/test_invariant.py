"""Verdicts on the five moves, and the comparison that decides each."""

import re
from pathlib import Path

from headwise.conformance.exact.move_verdict import MoveVerdict, Residual, compare_counts, judge_move
from headwise.conformance.invariants.invariant import invariants


def residual(holds: bool, relation: str, bound: float) -> Residual:
    return Residual("a and b", holds, relation, bound)


def nothing_vacuous(comparisons):
    return None


def test_an_invariant_holds_when_every_comparison_does():
    fine, wrong = residual(True, "≤", 1e-30), residual(False, "≥", 0.2)
    assert judge_move([fine, fine], iter, nothing_vacuous).state == "holds"
    assert judge_move([fine, wrong, fine], iter, nothing_vacuous).state == "falls"
    assert judge_move([fine, wrong], iter, nothing_vacuous).residuals == (fine, wrong)
    assert judge_move([fine], iter, nothing_vacuous).passed is True
    assert judge_move([wrong], iter, nothing_vacuous).passed is False


def test_an_invariant_with_nothing_to_compare_is_vacuous_and_states_why():
    verdict = judge_move([], lambda trace: 1 / 0, lambda trace: "there is nothing")
    assert verdict == MoveVerdict("vacuous", (), "there is nothing")
    assert verdict.passed is None
    assert verdict.bound is None
    assert str(verdict) == "vacuous: there is nothing"


def test_the_decisive_comparison():
    small, large = residual(True, "≤", 1e-30), residual(True, "≤", 1e-28)
    near, far = residual(True, "≥", 0.1), residual(True, "≥", 0.9)
    broken, shattered = residual(False, "≥", 0.2), residual(False, "≥", 0.8)
    same, alike = residual(False, "≤", 1e-30), residual(False, "≤", 1e-28)
    assert MoveVerdict("holds", (small, large)).decisive == large
    assert MoveVerdict("holds", (far, near)).decisive == near
    assert MoveVerdict("holds", (small, far, near)).decisive == near
    assert MoveVerdict("falls", (broken, shattered, large)).decisive == shattered
    assert MoveVerdict("falls", (alike, same, near)).decisive == same
    assert MoveVerdict("falls", (same, broken)).decisive == broken
    assert str(MoveVerdict("falls", (broken,))) == "falls: a and b: difference ≥ 0.2"


def test_counting():
    assert compare_counts("heads", 4, 4) == Residual("heads", True, "≤", 0.0)
    assert compare_counts("heads", 3, 4) == Residual("heads", False, "≥", 1.0)


def test_the_documentation_states_the_number_of_invariants():
    page = (Path(__file__).parents[2] / "docs" / "checking.md").read_text()
    stated = [int(number) for number in re.findall(r"(\d+) invariants", page)]
    assert stated == [len(invariants("call", "layer"))]
