"""N10: a NaN in a query makes its row NaN, is not swallowed, and harms no other row."""

import torch

from headwise.proof.finding import Finding
from headwise.proof.fit import pooled
from headwise.proof.judging import alive, ask, differ, room
from headwise.proof.law import Law, Level
from headwise.proof.pool import odd_ones, problem, sizes, witnesses


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
    return None


@pooled
def problems(level: Level):
    yield from (witnesses()["plain"], witnesses()["padding"], witnesses()["causal"], sizes()["square"], odd_ones()["softcap"])
    yield problem(2, 4, 4, 16, 16, 8, 8, seed=122)


ENTRY = Law(
    code="N10",
    statement="A NaN in a query makes that row NaN, and no other: it is neither swallowed nor spread.",
    formula="q_i = NaN  ⇒  z_i = NaN,  z_j as before",
    when="the row sees a key",
    judge=judge,
    problems=problems,
)
