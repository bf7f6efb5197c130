"""What judges share: asking a subject, and finding the worst of two sides that should agree."""

from typing import Any

import numpy as np
import torch

from headwise.axes import Bool, Tensor
from headwise.conformance.oracles.rounding import Allowed, allowed
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding, Severity

WEIGHTS = How(weights=True)


def ask(subject: Any, problem: Problem | LayerProblem, how: How = PLAINLY) -> Answer:
    """The subject's answer, its tensors detached and in float64 but for what its dtype says."""
    return subject.attend(problem, how)


def room(subject: Any, problem: Problem | LayerProblem) -> Allowed:
    """By how much the subject's answers may be off."""
    return allowed(problem, subject.conventions)


def differ(
    problem: Problem | LayerProblem,
    got: Tensor,
    right: Tensor,
    allow: Tensor | float,
    why: str,
    how: How = PLAINLY,
    where: Bool[Tensor, "..."] | None = None,
    severity: Severity = "wrong",
) -> Finding | None:
    """A finding where `got` is not `right` within what is allowed: another shape, NaN on one side, or too far away.

    Args:
        where: numbers that count; all when absent. Broadcast to the shape of `right`.
    """
    if got.shape != right.shape:
        return Finding(severity, problem, f"{why} Its shape is {list(got.shape)} and should be {list(right.shape)}.", got, right, how=how)
    got, right = got.detach().double().cpu(), right.detach().double().cpu()
    gap = (got - right).abs()
    same = (got == right) | (got.isnan() & right.isnan())
    off = torch.where(same, 0.0, gap / torch.as_tensor(allow, dtype=torch.float64).clamp(min=1e-300)).nan_to_num(nan=torch.inf)
    if where is not None:
        off = torch.where(where.broadcast_to(off.shape), off, 0.0)
    if not off.numel() or float(off.max()) <= 1:
        return None
    worst = int(off.argmax())
    place = tuple(int(n) for n in np.unravel_index(worst, off.shape))  # torch's own loads sympy, which takes a second
    return Finding(severity, problem, why, got, right, place, float(off.flatten()[worst]), how)


def not_finite(
    problem: Problem | LayerProblem,
    got: Tensor,
    right: Tensor,
    why: str,
    how: How = PLAINLY,
    where: Bool[Tensor, "..."] | None = None,
    severity: Severity = "wrong",
) -> Finding | None:
    """A finding where `got` is NaN or infinite and should not be: of the first such number that counts."""
    strange = ~got.isfinite().cpu()
    if where is not None:
        strange = strange & where.broadcast_to(strange.shape)
    if not bool(strange.any()):
        return None
    place = tuple(int(n) for n in strange.nonzero()[0])
    return Finding(severity, problem, why, got.detach().double().cpu(), right.detach().double().cpu(), place, how=how)


MANY = 500  # numbers over which rounding averages out


def leaning(problem: Problem, got: Tensor, right: Tensor, units: float, what: str, how: How = PLAINLY) -> Finding | None:
    """A finding where half precision is too large or too small as a whole. Rounding has no direction: over many numbers, each of few keys, it
    averages out, where a wrong factor does not.

    Args:
        units: of rounding that it may lean.
        what: "All numbers of the output together are".
    """
    if problem.query.dtype not in (torch.float16, torch.bfloat16) or got.numel() < MANY or problem.shape[3] > 8 or not bool(right.isfinite().all()):
        return None
    got, right, slack = got.detach().double().cpu(), right.detach().double().cpu(), units * torch.finfo(problem.query.dtype).eps / 2
    lean = float((got * right).sum() / (right * right).sum().clamp(min=1e-300)) - 1
    if abs(lean) <= slack:
        return None
    why = f"{what} {abs(lean):.1%} too {'large' if lean > 0 else 'small'}: rounding has no direction."
    place = tuple(int(n) for n in np.unravel_index(int(right.abs().argmax()), right.shape))
    return Finding("fragile", problem, why, got, right, place, abs(lean) / slack, how)


def wrong(problem: Problem | LayerProblem, why: str, how: How = PLAINLY, severity: Severity = "wrong") -> Finding:
    """A finding without two sides."""
    return Finding(severity, problem, why, how=how)


def rows(of_heads: Bool[Tensor, "B H T"], problem: Problem | LayerProblem) -> Bool[Tensor, "..."]:
    """Which numbers of the output these rows are: [B, H, T, 1] of a call; [B, T, 1] of a layer, where all heads must agree."""
    return of_heads.all(1)[..., None] if isinstance(problem, LayerProblem) else of_heads[..., None]


def alive(subject: Any, problem: Problem | LayerProblem) -> Bool[Tensor, "B H T"]:
    """Rows that see a key."""
    return problem.seen(subject.conventions).any(-1)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Numbers from a normal distribution, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def noise_like(x: Tensor, seed: int = 0) -> Tensor:
    """Fresh numbers of the shape, dtype and device of `x`."""
    return normal(*x.shape, seed=seed).to(x)


def declared(subject: Any, problem: Problem | LayerProblem) -> Bool[Tensor, "B H T"]:
    """Rows of which it is known what they give. Where a dead row is the mean that a finite fill leaves, a -inf of the caller's own may make it NaN."""
    live = alive(subject, problem)
    if subject.conventions.dead_row != "mean" or problem.bias is None:
        return torch.ones_like(live)
    filled = (problem.bias == -torch.inf).broadcast_to(problem.shape).any(-1).cpu()
    return live | ~filled
