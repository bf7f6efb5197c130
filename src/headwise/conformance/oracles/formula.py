"""The plainest of all laws: the numbers are those of the formula. It judges problems drawn at random, on which no other law need say anything."""

from typing import Any

from headwise.conformance.invariants.law import Law
from headwise.conformance.oracles.tolerance import ask, differ, room
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding


def judge(subject: Any, problem: Problem) -> Finding | None:
    """The first of output, lse and weights that an oracle in float64 has otherwise; rows that see no key are left to their own law."""
    right, allow = problem.right(subject.conventions), room(subject, problem)
    alive = problem.seen(subject.conventions).any(-1)
    got = ask(subject, problem)
    found = differ(problem, got.output, right.output, allow.output, "The output is not what the formula gives.", where=alive[..., None])
    if found is None and got.lse is not None and "lse" in subject.honours:
        found = differ(problem, got.lse, right.lse, allow.lse, "lse is not the log of the sum of exponentials.", where=alive)
    if found is None and "weights" in subject.honours and subject.conventions.weights == "per head":
        how = How(weights=True)
        found = differ(
            problem, ask(subject, problem, how).weights, right.weights, allow.weights, "The weights are not those of the softmax.", how, alive[..., None]
        )
    return found


DEFINITION = Law(
    code="F",
    statement="The output is what the formula gives, to within rounding.",
    formula="z = softmax(softcap(scale · q·kᵀ) + bias, hidden where hidden) · v",
    when="always; rows that see no key are a matter of convention",
    judge=judge,
    problems=lambda subject, level: (),
)
