"""N12: what is added to all scores of a row alike changes nothing: a softmax looks at differences."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import ask, differ, normal, room
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import odd_ones, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.sink is not None:
        return None
    before = ask(subject, problem).output
    if problem.softcap is None:
        shift = normal(1, problem.key.shape[1], 1, problem.key.shape[3], seed=112).to(problem.key)
        moved = problem.having(key=problem.key + shift)
        allow = room(subject, moved).output + room(subject, problem).output
        found = differ(moved, ask(subject, moved).output, before, allow, "The same was added to all keys, and the output changed.")
        if found is not None:
            return found
    if "bias" not in subject.honours:
        return None
    column = normal(1, 1, problem.shape[2], 1, seed=113).to(problem.query)
    bias = torch.zeros(1, 1, 1, problem.shape[3], dtype=problem.query.dtype) if problem.bias is None else problem.bias
    moved = problem.having(bias=bias + column)
    allow = room(subject, moved).output + room(subject, problem).output
    return differ(moved, ask(subject, moved).output, before, allow, "A constant was added to all scores of each row, and the output changed.")


@pooled
def problems(level: Level):
    yield from (*witnesses().values(), sizes()["square"], sizes()["eight heads"], odd_ones()["bias"], problem(causal=True, seed=126))


ENTRY = Law(
    code="N12",
    statement="A constant that is added to all allowed scores of a row changes nothing.",
    formula="softmax(s + c) = softmax(s)",
    when="there is no sink; through keys only without a cap",
    judge=judge,
    problems=problems,
)
