"""I18: an axis of length 0 is an axis: nothing comes out of nothing, in the right shape."""

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import ask, differ, wrong
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import problem
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if all(problem.shape) and all(problem.value.shape):
        return None
    found, right = ask(subject, problem).output, problem.right(subject.conventions).output
    if found.shape != right.shape:
        return wrong(problem, f"The output has shape {list(found.shape)} and should have {list(right.shape)}.")
    if not problem.shape[3] and not bool(found.any()):
        return None  # a sum over nothing is 0, whatever is declared for rows from which all is hidden
    return differ(problem, found, right, 0.0, "With no key to look at, a row is that of a row that sees none.")


@pooled
def problems(level: Level):
    yield from (problem(batch=0), problem(queries=0), problem(keys=0), problem(wide=0), problem(heads=0, groups=0))
    yield problem(batch=0, causal=True, seed=76)
    yield problem(keys=0, causal=True, seed=77)


ENTRY = Law(
    code="I18",
    statement="Axes of length 0 are no error: the output has the right shape, and without keys its rows see none.",
    formula="B, H, T, S or E = 0",
    when="the subject takes empty axes",
    judge=judge,
    problems=problems,
    needs=frozenset({"empty"}),
)
