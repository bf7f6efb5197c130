"""I18: an axis of length 0 is an axis: nothing comes out of nothing, in the right shape."""

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import fault, mismatch
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_problem


def judge(subject, problem) -> Finding | None:
    if all(problem.shape) and all(problem.value.shape):
        return None
    found, right = subject.attend(problem).output, problem.expected(subject.conventions).output
    if found.shape != right.shape:
        return fault(problem, f"The output has shape {list(found.shape)} and should have {list(right.shape)}.")
    if not problem.shape[3] and not bool(found.any()):
        return None  # a sum over nothing is 0, whatever is declared for rows from which all is hidden
    return mismatch(problem, found, right, 0.0, "With no key to look at, a row is that of a row that sees none.")


@fit_to_subject
def problems(level: CheckLevel):
    yield from (make_problem(batch=0), make_problem(queries=0), make_problem(keys=0), make_problem(value_dim=0), make_problem(heads=0, groups=0))
    yield make_problem(batch=0, causal=True, seed=76)
    yield make_problem(keys=0, causal=True, seed=77)


ENTRY = Invariant(
    code="I18",
    statement="Axes of length 0 are no error: the output has the right shape, and without keys its rows see none.",
    formula="B, H, T, S or E = 0",
    when="the subject takes empty axes",
    judge=judge,
    problems=problems,
    needs=frozenset({"empty"}),
)
