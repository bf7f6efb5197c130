"""I17: scores of some hundred thousand are as good as small ones: a softmax looks at differences only."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, not_finite, room
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.perturbations import rounded
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import problem, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    live = alive(subject, problem)[..., None]
    right, allow = problem.right(subject.conventions).output, room(subject, problem).output
    for how in (PLAINLY, WEIGHTS) if "weights" in subject.honours else (PLAINLY,):
        found = ask(subject, problem, how)
        gap = not_finite(problem, found.output, right, "Loud scores make a row NaN or infinite.", how, live, "fragile")
        gap = gap or differ(problem, found.output, right, allow, "Loud scores make a row wrong.", how, live, "fragile")
        if gap is not None:
            return gap
    return None


def problems(subject, level: Level):
    yield from _usual(subject, level)
    if torch.float16 in subject.dtypes:
        yield from (rounded(entry, torch.float16) for entry in _half(subject, level))


@pooled
def _usual(level: Level):
    """By scores: thousands, all far below 0, all far above, and two fills that are said to be minus infinity."""
    loud = witnesses()["mask by head"]
    yield loud.having(query=loud.query * 300, key=loud.key * 300)
    yield witnesses()["causal"].having(query=loud.query * 30)
    yield lifted(-400.0)
    yield lifted(400.0)
    yield problem(sink=torch.tensor([200.0, -200.0, 1000.0, 0.0]).double(), seed=76)
    for keys in ((100.0, 99.0), (1000.0, 1.0)):
        yield _leaking(keys)


def lifted(score: float):
    """All scores near one number."""
    some = problem(width=1, scale=1.0, seed=74)
    return some.having(query=torch.full_like(some.query, score), key=1 + some.key / 1000)


def _leaking(keys):
    """One key is hidden, and the score of the other lies below what a lazy mask would put in its place."""
    q, k, v = (torch.tensor(numbers).double().reshape(1, 1, -1, 1) for numbers in ([-300.0], keys, [1.0, 5.0]))
    return problem(1, 1, 1, 1, 2, 1, 1, scale=1.0, mask=torch.tensor([True, False])).having(query=q, key=k, value=v)


@pooled
def _half(level: Level):
    """Products past 65504: one that the scale brings back, and one that it does not."""
    some = problem(1, 1, 1, 2, 2, 64, 2, seed=75)
    yield some.having(query=torch.full_like(some.query, 60.0), key=torch.full_like(some.key, 60.0))
    opposite = torch.tensor([200.0, -200.0]).double()[None, None, :, None].expand(some.query.shape)
    yield some.having(query=opposite, key=opposite)


ENTRY = Law(
    code="I17",
    statement="Scores of any size give a finite and right row: only their differences matter.",
    formula="softmax(s) = softmax(s - max s)",
    when="always; in half precision too, where products pass 65504",
    judge=judge,
    problems=problems,
)
