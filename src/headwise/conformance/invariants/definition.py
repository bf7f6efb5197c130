"""The formula itself as an invariant. It judges random problems, to which no other invariant need apply."""

from headwise.conformance.answer import CallMode
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import Subject


def judge(subject: Subject, problem: Problem) -> Finding | None:
    """The first of output, lse and weights that differs from the reference in float64; fully masked rows have an invariant of their own."""
    expected, allowed = problem.expected(subject.conventions), tolerance(subject, problem)
    attending = problem.visible(subject.conventions).any(-1)
    got = subject.attend(problem)
    found = mismatch(problem, got.output, expected.output, allowed.output, "The output differs from the formula.", where=attending[..., None])
    if found is None and got.lse is not None and expected.lse is not None and "lse" in subject.supports:
        found = mismatch(problem, got.lse, expected.lse, allowed.lse, "lse is not the log-sum-exp of the scores.", where=attending)
    if found is None and "weights" in subject.supports and subject.conventions.weights == "per head":
        mode = CallMode(weights=True)
        weights, right = subject.attend(problem, mode).weights, expected.weights
        if weights is not None and right is not None:
            found = mismatch(problem, weights, right, allowed.weights, "The attention weights differ from the softmax.", mode, attending[..., None])
    return found


DEFINITION = Invariant(
    code="F",
    statement="The output is that of the formula, up to rounding.",
    formula="z = softmax(softcap(scale · q·kᵀ) + bias, -∞ where hidden) · v",
    when="always; the result of fully masked rows is a convention",
    judge=judge,
)
