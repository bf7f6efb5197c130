"""N13: the smallest finite number hides as minus infinity does, wherever something else is seen; the difference elsewhere is declared."""

from functools import lru_cache

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, declared, differ, room, wrong
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import lengths, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.mask is None or problem.bias is not None or problem.causal or problem.window is not None or problem.softcap is not None:
        return None
    live, allow = alive(subject, problem)[..., None], 2 * room(subject, problem).output
    infinite, smallest = (filled(problem, fill) for fill in (-torch.inf, torch.finfo(problem.query.dtype).min))
    with_infinite, with_smallest = ask(subject, infinite).output, ask(subject, smallest).output
    why = "The smallest finite number hides otherwise than minus infinity, in a row that sees a key."
    found = differ(smallest, with_smallest, with_infinite, allow, why, where=live)
    right = infinite.right(subject.conventions).output
    dead = ~live & declared(subject, infinite)[..., None]
    found = found or differ(infinite, with_infinite, right, allow, "Minus infinity in all of a row does not give what is declared.", where=dead)
    if found is None and not bool(with_smallest.isfinite().all()):
        found = wrong(smallest, "The smallest finite number in all of a row gives NaN or infinity.")
    return found


@lru_cache(maxsize=1024)
def filled(problem, fill: float):
    """The mask as a bias."""
    bias = torch.zeros(problem.mask.shape, dtype=problem.query.dtype, device=problem.query.device).masked_fill(~problem.mask, fill)
    return problem.having(mask=None, bias=bias)


@pooled
def problems(level: Level):
    dead_row = torch.tensor([[True] * 3, [False] * 3, [True, False, True]])
    yield from (problem(1, 1, 1, 3, 3, mask=dead_row, seed=127), problem(3, 2, 1, 2, 4, mask=lengths(4, 4, 0, 2), seed=128))
    yield from (witnesses()["padding"], witnesses()["mask by head"], sizes()["one head"])


ENTRY = Law(
    code="N13",
    statement="As a bias, the smallest finite number hides as minus infinity does wherever a key is seen, and never makes a NaN.",
    formula="softmax(s + min) = softmax(s - ∞) on live rows",
    when="the subject takes a bias",
    judge=judge,
    problems=problems,
    needs=frozenset({"bias"}),
)
