"""N2: masks are sets of pairs, and sets have an algebra: all is none, two are their intersection, bool is minus infinity."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, room
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers, lengths, odd_ones, problem, settings
from headwise.conformance.problems.variants import as_bias, as_mask, halves, minus_infinity, written_out
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    said, allow = ask(subject, problem).output, 2 * room(subject, problem).output
    # Where a dead row is the mean of what a finite fill leaves, the algebra holds for live rows only.
    where = None if subject.conventions.dead_row != "mean" else alive(subject, problem)[..., None]
    for why, other in _others(subject, problem).items():
        if other is None or (
            "mask_by_head" not in subject.honours and any(plane is not None and plane.dim() > 2 and plane.shape[-3] > 1 for plane in (other.mask, other.bias))
        ):
            continue
        found = differ(other, ask(subject, other).output, said, allow, why, where=where)
        if found is not None:
            return found
    return None


def _others(subject, problem) -> dict:
    """The same said otherwise."""
    ones = torch.ones(1, 1, 1, problem.shape[3], dtype=torch.bool, device=problem.query.device)
    others = {
        "A mask that hides nothing changes the output.": problem.having(mask=ones) if problem.mask is None else None,
        "A mask that broadcasts gives another output than the same mask written out.": written_out(problem),
        "Causality and window together with the mask give another output than one mask that hides what any of them hides.": as_mask(
            problem, subject.conventions
        ),
    }
    if "bias" in subject.honours:
        others["A bias of -inf hides otherwise than a mask."] = as_bias(problem)
        split = halves(problem)
        if split is not None and problem.bias is None:
            others["A mask and a bias of -inf together hide otherwise than one mask."] = problem.having(
                mask=split[0], bias=minus_infinity(split[1], problem.query)
            )
    return others


@pooled
def problems(level: Level):
    yield from settings(level)
    yield problem(1, 2, 2, 7, 7, causal=True, mask=torch.tensor([0, 1, 1, 0, 0, 1, 0]).bool(), seed=89)
    yield problem(1, 1, 1, 5, 5, causal=True, mask=torch.arange(5) < 4, seed=90)
    yield problem(1, 2, 1, 5, 5, causal=True, mask=torch.arange(5) >= 3, seed=91)
    yield problem(1, 2, 1, 2, 2, mask=torch.tensor([[True, False], [True, True]]), seed=92)
    yield problem(4, 2, 1, 3, 3, mask=lengths(3, 3, 1, 2, 0), seed=93)
    yield from (odd_ones()["mask for all"], odd_ones()["mask a row"], odd_ones()["bias"])
    yield problem(1, 1, 1, 4, 4, window=(0, 0), seed=94)
    yield layers()["padding"]


ENTRY = Law(
    code="N2",
    statement="Masks are sets: one that hides nothing is none, several hide what any of them hides, and -inf in a bias hides as a mask does.",
    formula="seen(A, B) = seen(A) ∩ seen(B)",
    when="a mask can be given",
    judge=judge,
    problems=problems,
    needs=frozenset({"mask"}),
)
