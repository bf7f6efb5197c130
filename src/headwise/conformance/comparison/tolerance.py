"""Comparing an answer with the expected one, within the error that rounding explains."""

from functools import lru_cache

import numpy as np
import torch

from headwise.axes import Bool, Tensor
from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.comparison.finding import Finding, Severity
from headwise.conformance.comparison.rounding import Tolerances, tolerances
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import Subject

WITH_WEIGHTS = CallMode(weights=True)
MANY = 500  # numbers over which rounding errors average out
LARGE_SCORE = 5000.0  # beyond it a failure is "fragile": correct implementations differ in what they survive


def tolerance(subject: Subject, problem: AnyProblem) -> Tolerances:
    """The largest error that rounding explains in the subject's answer."""
    return tolerances(problem, subject.conventions)


def mismatch(
    problem: AnyProblem,
    got: Tensor,
    expected: Tensor,
    allowed: Tensor | float,
    why: str,
    mode: CallMode = PLAIN,
    where: Bool[Tensor, "..."] | None = None,
    severity: Severity = "wrong",
) -> Finding | None:
    """A finding where `got` differs from `expected` by more than is allowed, has another shape, or is NaN on one side only; None where they agree.

    Args:
        why: what it means if they differ, in one sentence.
        where: the numbers that are compared, broadcast to the shape of `expected`; all of them when absent.
    """
    if got.shape != expected.shape:
        return Finding(severity, problem, f"{why} Its shape is {list(got.shape)} and should be {list(expected.shape)}.", got, expected, mode=mode)
    got, expected = got.detach().double().cpu(), expected.detach().double().cpu()
    difference = (got - expected).abs()
    same = (got == expected) | (got.isnan() & expected.isnan())
    excess = torch.where(same, 0.0, difference / torch.as_tensor(allowed, dtype=torch.float64).clamp(min=1e-300)).nan_to_num(nan=torch.inf)
    if where is not None:
        excess = torch.where(where.broadcast_to(excess.shape), excess, 0.0)
    if not excess.numel() or float(excess.max()) <= 1:
        return None
    worst = int(excess.argmax())
    index = tuple(int(n) for n in np.unravel_index(worst, excess.shape))  # torch's own imports sympy, which takes a second
    return Finding(severity, problem, why, got, expected, index, float(excess.flatten()[worst]), mode)


def not_finite(
    problem: AnyProblem,
    got: Tensor,
    expected: Tensor,
    why: str,
    mode: CallMode = PLAIN,
    where: Bool[Tensor, "..."] | None = None,
    severity: Severity = "wrong",
) -> Finding | None:
    """A finding of the first number of `got` that is NaN or infinite, among those that `where` selects; None where all are finite."""
    nonfinite = ~got.isfinite().cpu()
    if where is not None:
        nonfinite = nonfinite & where.broadcast_to(nonfinite.shape)
    if not bool(nonfinite.any()):
        return None
    index = tuple(int(n) for n in nonfinite.nonzero()[0])
    return Finding(severity, problem, why, got.detach().double().cpu(), expected.detach().double().cpu(), index, mode=mode)


def systematic_error(problem: Problem, got: Tensor, expected: Tensor, units: float, what: str, mode: CallMode = PLAIN) -> Finding | None:
    """A finding where half-precision numbers are too large or too small on average.

    Rounding errors have no preferred sign: over many numbers, each the sum over few keys, they average out, whereas a wrong factor does not.

    Args:
        units: the allowed mean relative error, in units of roundoff.
        what: the numbers in question, such as "The numbers of the output are, on average,".
    """
    if problem.dtype not in (torch.float16, torch.bfloat16) or got.numel() < MANY or problem.shape[3] > 8 or not bool(expected.isfinite().all()):
        return None
    got, expected, allowed = got.detach().double().cpu(), expected.detach().double().cpu(), units * torch.finfo(problem.dtype).eps / 2
    error = float((got * expected).sum() / (expected * expected).sum().clamp(min=1e-300)) - 1
    if abs(error) <= allowed:
        return None
    why = f"{what} {abs(error):.1%} too {'large' if error > 0 else 'small'}, and rounding errors would average out."
    index = tuple(int(n) for n in np.unravel_index(int(expected.abs().argmax()), expected.shape))
    return Finding("fragile", problem, why, got, expected, index, abs(error) / allowed, mode)


def fault(problem: AnyProblem, why: str, mode: CallMode = PLAIN, severity: Severity = "wrong") -> Finding:
    """A finding without two tensors to compare."""
    return Finding(severity, problem, why, mode=mode)


def output_rows(head_rows: Bool[Tensor, "B H T"], problem: AnyProblem) -> Bool[Tensor, "..."]:
    """The numbers of the output that belong to these rows: [B, H, T, 1] of a call; [B, T, 1] of a layer, where they must be rows of every head."""
    return head_rows.all(1)[..., None] if isinstance(problem, LayerProblem) else head_rows[..., None]


def attending_rows(subject: Subject, problem: AnyProblem) -> Bool[Tensor, "B H T"]:
    """The rows with at least one visible key."""
    return problem.visible(subject.conventions).any(-1)


def determined_rows(subject: Subject, problem: AnyProblem) -> Bool[Tensor, "B H T"]:
    """The rows whose result the conventions determine.

    Where a fully masked row is the mean because of a finite fill value, a -inf in the caller's bias may make it NaN instead: such rows are left out.
    """
    attending = attending_rows(subject, problem)
    if subject.conventions.dead_row != "mean" or problem.bias is None:
        return torch.ones_like(attending)
    minus_infinity = (problem.bias == -torch.inf).broadcast_to(problem.shape).any(-1).cpu()
    return attending | ~minus_infinity


@lru_cache(maxsize=1024)
def severity_at_scores(problem: AnyProblem) -> Severity:
    """The severity of a failure on this problem: "fragile" where scores may exceed a few thousand, "wrong" elsewhere."""
    if isinstance(problem, LayerProblem):
        return "wrong"
    norms = [x.detach().double().norm(dim=-1).max() if x.numel() else torch.zeros(()) for x in (problem.query, problem.key)]
    scale = problem.query.shape[3] ** -0.5 if problem.scale is None else abs(problem.scale)
    return "fragile" if float(norms[0] * norms[1]) * scale > LARGE_SCORE else "wrong"
