"""I17: scores of some hundred thousand are as good as small ones: a softmax looks at differences only."""

import torch

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, not_finite, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.perturbations import as_dtype
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem


def judge(subject, problem) -> Finding | None:
    attending = attending_rows(subject, problem)[..., None]
    right, allow = problem.expected(subject.conventions).output, tolerance(subject, problem).output
    for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports else (PLAIN,):
        found = subject.attend(problem, mode)
        gap = not_finite(problem, found.output, right, "Loud scores make a row NaN or infinite.", mode, attending, "fragile")
        gap = gap or mismatch(problem, found.output, right, allow, "Loud scores make a row wrong.", mode, attending, "fragile")
        if gap is not None:
            return gap
    return None


def problems(subject, level: CheckLevel):
    yield from _usual(subject, level)
    if torch.float16 in subject.dtypes:
        yield from (as_dtype(entry, torch.float16) for entry in _half(subject, level))


@fit_to_subject
def _usual(level: CheckLevel):
    """By scores: thousands, all far below 0, all far above, and two fills that are said to be minus infinity."""
    loud = core_problems()["mask by head"]
    yield loud.replace(query=loud.query * 300, key=loud.key * 300)
    yield core_problems()["causal"].replace(query=loud.query * 30)
    yield lifted(-400.0)
    yield lifted(400.0)
    yield make_problem(sink=torch.tensor([200.0, -200.0, 1000.0, 0.0]).double(), seed=76)
    for keys in ((100.0, 99.0), (1000.0, 1.0)):
        yield _leaking(keys)


def lifted(score: float):
    """All scores near one number."""
    some = make_problem(head_dim=1, scale=1.0, seed=74)
    return some.replace(query=torch.full_like(some.query, score), key=1 + some.key / 1000)


def _leaking(keys):
    """One key is hidden, and the score of the other lies below what a lazy mask would put in its place."""
    q, k, v = (torch.tensor(numbers).double().reshape(1, 1, -1, 1) for numbers in ([-300.0], keys, [1.0, 5.0]))
    return make_problem(1, 1, 1, 1, 2, 1, 1, scale=1.0, mask=torch.tensor([True, False])).replace(query=q, key=k, value=v)


@fit_to_subject
def _half(level: CheckLevel):
    """Products past 65504: one that the scale brings back, and one that it does not."""
    some = make_problem(1, 1, 1, 2, 2, 64, 2, seed=75)
    yield some.replace(query=torch.full_like(some.query, 60.0), key=torch.full_like(some.key, 60.0))
    opposite = torch.tensor([200.0, -200.0]).double()[None, None, :, None].expand(some.query.shape)
    yield some.replace(query=opposite, key=opposite)


ENTRY = Invariant(
    code="I17",
    statement="Scores of any size give a finite and right row: only their differences matter.",
    formula="softmax(s) = softmax(s - max s)",
    when="always; in half precision too, where products pass 65504",
    judge=judge,
    problems=problems,
)
