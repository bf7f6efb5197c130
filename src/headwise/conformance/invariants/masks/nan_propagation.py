"""N10: a NaN in a query makes its row NaN, is not swallowed, and harms no other row; a NaN in a value reaches whoever sees it."""

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, size_problems


def judge(subject, problem) -> Finding | None:
    if not all(problem.shape):
        return None
    attending, before, allow = attending_rows(subject, problem)[..., None], subject.attend(problem).output, 2 * tolerance(subject, problem).output
    row = problem.shape[2] - 1
    for spoilt in (torch.arange(problem.shape[2]) == row, torch.ones(problem.shape[2], dtype=torch.bool)):
        here = torch.zeros(problem.shape[:3], dtype=torch.bool)
        here[:, 0] = spoilt
        bad = problem.replace(query=problem.query.masked_fill(here[..., None], torch.nan))
        after = subject.attend(bad).output
        found = mismatch(bad, after, before, allow, "A NaN in a query reached another row.", where=attending & ~here[..., None])
        nan = torch.full(after.shape, torch.nan, dtype=torch.float64)
        found = found or mismatch(bad, after, nan, 0.0, "A NaN in a query was swallowed: its row should be NaN.", where=attending & here[..., None])
        if found is not None:
            return found
    return _seen(subject, problem)


def _seen(subject, problem) -> Finding | None:
    """The value that most queries of the first text see."""
    visible = problem.visible(subject.conventions)
    j = int(visible[0].sum((0, 1)).argmax())
    value = problem.value.clone()
    value[0, :, j] = torch.nan
    bad = problem.replace(value=value)
    after, here = subject.attend(bad).output, visible[..., j].clone()
    here[1:] = False
    nan = torch.full(after.shape, torch.nan, dtype=torch.float64)
    return mismatch(bad, after, nan, 0.0, f"A NaN in value {j} was swallowed: a row that sees it should be NaN.", where=here[..., None])


@fit_to_subject
def problems(level: CheckLevel):
    yield from (core_problems()["plain"], core_problems()["padding"], core_problems()["causal"], size_problems()["square"], option_problems()["softcap"])
    yield from (make_problem(2, 4, 4, 16, 16, 8, 8, seed=122), make_problem(1, 2, 2, 3, 5, 4, 4, seed=134))


ENTRY = Invariant(
    code="N10",
    statement="A NaN in a query makes that row NaN, and no other; one in a value reaches every row that sees it: neither is swallowed or spread.",
    formula="q_i = NaN  ⇒  z_i = NaN,  z_j as before;  v_j = NaN  ⇒  z_i = NaN where i sees j",
    when="the row sees a key",
    judge=judge,
    problems=problems,
)
