"""N10: a NaN in a query makes its row NaN, is not swallowed, and harms no other row; a NaN in a value reaches whoever sees it."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, room
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import odd_ones, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if not all(problem.shape):
        return None
    live, before, allow = alive(subject, problem)[..., None], ask(subject, problem).output, 2 * room(subject, problem).output
    row = problem.shape[2] - 1
    for spoilt in (torch.arange(problem.shape[2]) == row, torch.ones(problem.shape[2], dtype=torch.bool)):
        here = torch.zeros(problem.shape[:3], dtype=torch.bool)
        here[:, 0] = spoilt
        bad = problem.having(query=problem.query.masked_fill(here[..., None], torch.nan))
        after = ask(subject, bad).output
        found = differ(bad, after, before, allow, "A NaN in a query reached another row.", where=live & ~here[..., None])
        nan = torch.full(after.shape, torch.nan, dtype=torch.float64)
        found = found or differ(bad, after, nan, 0.0, "A NaN in a query was swallowed: its row should be NaN.", where=live & here[..., None])
        if found is not None:
            return found
    return _seen(subject, problem)


def _seen(subject, problem) -> Finding | None:
    """The value that most queries of the first text see."""
    sees = problem.seen(subject.conventions)
    j = int(sees[0].sum((0, 1)).argmax())
    value = problem.value.clone()
    value[0, :, j] = torch.nan
    bad = problem.having(value=value)
    after, here = ask(subject, bad).output, sees[..., j].clone()
    here[1:] = False
    nan = torch.full(after.shape, torch.nan, dtype=torch.float64)
    return differ(bad, after, nan, 0.0, f"A NaN in value {j} was swallowed: a row that sees it should be NaN.", where=here[..., None])


@pooled
def problems(level: Level):
    yield from (witnesses()["plain"], witnesses()["padding"], witnesses()["causal"], sizes()["square"], odd_ones()["softcap"])
    yield from (problem(2, 4, 4, 16, 16, 8, 8, seed=122), problem(1, 2, 2, 3, 5, 4, 4, seed=134))


ENTRY = Law(
    code="N10",
    statement="A NaN in a query makes that row NaN, and no other; one in a value reaches every row that sees it: neither is swallowed or spread.",
    formula="q_i = NaN  ⇒  z_i = NaN,  z_j as before;  v_j = NaN  ⇒  z_i = NaN where i sees j",
    when="the row sees a key",
    judge=judge,
    problems=problems,
)
