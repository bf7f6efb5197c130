"""N13: the smallest finite number hides as minus infinity does, wherever something else is seen; the difference elsewhere is declared."""

from functools import lru_cache

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, determined_rows, fault, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, padding_mask, size_problems


def judge(subject, problem) -> Finding | None:
    if problem.mask is None or problem.bias is not None or problem.causal or problem.window is not None or problem.softcap is not None:
        return None
    attending, allow = attending_rows(subject, problem)[..., None], 2 * tolerance(subject, problem).output
    infinite, smallest = (filled(problem, fill) for fill in (-torch.inf, torch.finfo(problem.query.dtype).min))
    with_infinite, with_smallest = subject.attend(infinite).output, subject.attend(smallest).output
    why = "The smallest finite number hides otherwise than minus infinity, in a row that sees a key."
    found = mismatch(smallest, with_smallest, with_infinite, allow, why, where=attending)
    right = infinite.expected(subject.conventions).output
    dead = ~attending & determined_rows(subject, infinite)[..., None]
    found = found or mismatch(infinite, with_infinite, right, allow, "Minus infinity in all of a row does not give what is declared.", where=dead)
    if found is None and not bool(with_smallest.isfinite().all()):
        found = fault(smallest, "The smallest finite number in all of a row gives NaN or infinity.")
    return found


@lru_cache(maxsize=1024)
def filled(problem, fill: float):
    """The mask as a bias."""
    bias = torch.zeros(problem.mask.shape, dtype=problem.query.dtype, device=problem.query.device).masked_fill(~problem.mask, fill)
    return problem.replace(mask=None, bias=bias)


@fit_to_subject
def problems(level: CheckLevel):
    dead_row = torch.tensor([[True] * 3, [False] * 3, [True, False, True]])
    yield from (make_problem(1, 1, 1, 3, 3, mask=dead_row, seed=127), make_problem(3, 2, 1, 2, 4, mask=padding_mask(4, 4, 0, 2), seed=128))
    yield from (core_problems()["padding"], core_problems()["mask by head"], size_problems()["one head"])


ENTRY = Invariant(
    code="N13",
    statement="As a bias, the smallest finite number hides as minus infinity does wherever a key is seen, and never makes a NaN.",
    formula="softmax(s + min) = softmax(s - ∞) on live rows",
    when="the subject takes a bias",
    judge=judge,
    problems=problems,
    needs=frozenset({"bias"}),
)
