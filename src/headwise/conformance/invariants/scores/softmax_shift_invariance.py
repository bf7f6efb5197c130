"""N12: what is added to all scores of a row alike changes nothing: a softmax looks at differences."""

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, size_problems
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    if problem.sink is not None:
        return None
    before = subject.attend(problem).output
    if problem.softcap is None:
        shift = random_normal(1, problem.key.shape[1], 1, problem.key.shape[3], seed=112).to(problem.key)
        moved = problem.replace(key=problem.key + shift)
        allow = tolerance(subject, moved).output + tolerance(subject, problem).output
        found = mismatch(moved, subject.attend(moved).output, before, allow, "The same was added to all keys, and the output changed.")
        if found is not None:
            return found
    if "bias" not in subject.supports:
        return None
    column = random_normal(1, 1, problem.shape[2], 1, seed=113).to(problem.query)
    bias = torch.zeros(1, 1, 1, problem.shape[3], dtype=problem.query.dtype) if problem.bias is None else problem.bias
    moved = problem.replace(bias=bias + column)
    allow = tolerance(subject, moved).output + tolerance(subject, problem).output
    return mismatch(moved, subject.attend(moved).output, before, allow, "A constant was added to all scores of each row, and the output changed.")


@fit_to_subject
def problems(level: CheckLevel):
    yield from (
        *core_problems().values(),
        size_problems()["square"],
        size_problems()["eight heads"],
        option_problems()["bias"],
        make_problem(causal=True, seed=126),
    )


ENTRY = Invariant(
    code="N12",
    statement="A constant that is added to all allowed scores of a row changes nothing.",
    formula="softmax(s + c) = softmax(s)",
    when="there is no sink; through keys only without a cap",
    judge=judge,
    problems=problems,
)
