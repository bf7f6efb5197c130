"""N2: masks are sets of pairs, and sets have an algebra: all is none, two are their intersection, bool is minus infinity."""

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import layer_problems, make_problem, option_problems, padding_mask, standard_problems
from headwise.conformance.problems.variants import as_additive, as_bias, as_mask, split_mask, without_broadcasting


def judge(subject, problem) -> Finding | None:
    said, allow = subject.attend(problem).output, 2 * tolerance(subject, problem).output
    # Where a dead row is the mean of what a finite fill leaves, the algebra holds for live rows only.
    where = None if subject.conventions.dead_row != "mean" else attending_rows(subject, problem)[..., None]
    for why, other in _others(subject, problem).items():
        if other is None or (
            "mask_by_head" not in subject.supports and any(plane is not None and plane.dim() > 2 and plane.shape[-3] > 1 for plane in (other.mask, other.bias))
        ):
            continue
        found = mismatch(other, subject.attend(other).output, said, allow, why, where=where)
        if found is not None:
            return found
    return None


def _others(subject, problem) -> dict:
    """The same said otherwise."""
    ones = torch.ones(1, 1, 1, problem.shape[3], dtype=torch.bool, device=problem.query.device)
    others = {
        "A mask that hides nothing changes the output.": problem.replace(mask=ones) if problem.mask is None else None,
        "A mask that broadcasts gives another output than the same mask written out.": without_broadcasting(problem),
        "Causality and window together with the mask give another output than one mask that hides what any of them hides.": as_mask(
            problem, subject.conventions
        ),
    }
    if "bias" in subject.supports:
        others["A bias of -inf hides otherwise than a mask."] = as_bias(problem)
        split = split_mask(problem)
        if split is not None and problem.bias is None:
            others["A mask and a bias of -inf together hide otherwise than one mask."] = problem.replace(
                mask=split[0], bias=as_additive(split[1], problem.query)
            )
    return others


@fit_to_subject
def problems(level: CheckLevel):
    yield from standard_problems(level)
    yield make_problem(1, 2, 2, 7, 7, causal=True, mask=torch.tensor([0, 1, 1, 0, 0, 1, 0]).bool(), seed=89)
    yield make_problem(1, 1, 1, 5, 5, causal=True, mask=torch.arange(5) < 4, seed=90)
    yield make_problem(1, 2, 1, 5, 5, causal=True, mask=torch.arange(5) >= 3, seed=91)
    yield make_problem(1, 2, 1, 2, 2, mask=torch.tensor([[True, False], [True, True]]), seed=92)
    yield make_problem(4, 2, 1, 3, 3, mask=padding_mask(3, 3, 1, 2, 0), seed=93)
    yield from (option_problems()["mask without batch"], option_problems()["mask per sample"], option_problems()["bias"])
    yield make_problem(1, 1, 1, 4, 4, window=(0, 0), seed=94)
    yield layer_problems()["padding"]


ENTRY = Invariant(
    code="N2",
    statement="Masks are sets: one that hides nothing is none, several hide what any of them hides, and -inf in a bias hides as a mask does.",
    formula="seen(A, B) = seen(A) ∩ seen(B)",
    when="a mask can be given",
    judge=judge,
    problems=problems,
    needs=frozenset({"mask"}),
)
