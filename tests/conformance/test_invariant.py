"""Verdicts: what they come to, and which comparison they show."""

from headwise.conformance.exact.move_verdict import MoveVerdict, Residual, compare_counts
from headwise.conformance.invariants.invariant import Invariant


def residual(holds: bool, relation: str, bound: float) -> Residual:
    return Residual("a and b", holds, relation, bound)


def test_an_invariant_holds_when_every_comparison_does():
    fine, wrong = residual(True, "≤", 1e-30), residual(False, "≥", 0.2)
    law = Invariant("X1", "It is so.", "a = b", check=lambda walk: iter(walk))
    assert law.judge([fine, fine]).state == "holds"
    assert law.judge([fine, wrong, fine]).state == "falls"
    assert law.judge([fine, wrong]).residuals == (fine, wrong)


def test_an_invariant_with_nothing_to_compare_is_vacuous_and_says_why():
    law = Invariant("X1", "It is so.", "a = b", check=lambda walk: 1 / 0, vacuous=lambda walk: "there is nothing")
    verdict = law.judge(None)
    assert verdict == MoveVerdict("vacuous", (), "there is nothing")
    assert verdict.bound is None
    assert str(verdict) == "vacuous: there is nothing"


def test_the_comparison_that_tells_most():
    small, large = residual(True, "≤", 1e-30), residual(True, "≤", 1e-28)
    near, far = residual(True, "≥", 0.1), residual(True, "≥", 0.9)
    broken, shattered = residual(False, "≥", 0.2), residual(False, "≥", 0.8)
    same, alike = residual(False, "≤", 1e-30), residual(False, "≤", 1e-28)
    assert MoveVerdict("holds", (small, large)).telling == large
    assert MoveVerdict("holds", (far, near)).telling == near
    assert MoveVerdict("holds", (small, far, near)).telling == near
    assert MoveVerdict("falls", (broken, shattered, large)).telling == shattered
    assert MoveVerdict("falls", (alike, same, near)).telling == same
    assert MoveVerdict("falls", (same, broken)).telling == broken
    assert str(MoveVerdict("falls", (broken,))) == "falls: a and b: difference ≥ 0.2"


def test_counting():
    assert compare_counts("heads", 4, 4) == Residual("heads", True, "≤", 0.0)
    assert compare_counts("heads", 3, 4) == Residual("heads", False, "≥", 1.0)
