"""A problem changed by a stated rule, where more than one law asks for it."""

from functools import lru_cache
from typing import Any

import torch

from headwise.axes import Bool, Float, Tensor
from headwise.conformance.oracles.tolerance import noise_like
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Severity

LOUD = 50.0


@lru_cache(maxsize=4096)
def disturbed(problem: Any, j: int) -> tuple[Any, Bool[Tensor, "B T"]]:
    """The same with key j and its value changed a lot; and which queries are as they were."""
    still = torch.ones(problem.shape[0], problem.shape[2], dtype=torch.bool)
    if not isinstance(problem, LayerProblem):
        return problem.having(key=_loud(problem.key, 2, j), value=_loud(problem.value, 2, j)), still
    if problem.context is not None:
        return problem.having(context=_loud(problem.context, 1, j)), still
    still[:, j] = False
    return problem.having(x=_loud(problem.x, 1, j)), still


def _loud(x: Tensor, axis: int, j: int) -> Tensor:
    changed = x.clone()
    changed.select(axis, j).add_(LOUD * noise_like(changed.select(axis, j), seed=92))
    return changed


def only(w_o: Float[Tensor, "H E M"], head: int) -> Float[Tensor, "H E M"]:
    """The rows of one head, all others 0."""
    kept = torch.zeros_like(w_o)
    kept[head] = w_o[head]
    return kept


@lru_cache(maxsize=1024)
def having(problem: Any, **changes: Any) -> Any:
    """`problem.having`, the same object for the same changes: what is right about it is then known already."""
    return problem.having(**changes)


@lru_cache(maxsize=4096)
def rounded(problem: Any, dtype: torch.dtype) -> Any:
    """`problem.to(dtype)`, the same object every time."""
    return problem.to(dtype)


@lru_cache(maxsize=1024)
def loudness(problem: Problem | LayerProblem) -> Severity:
    """What a fault at these scores is: beyond a few thousand it is a matter of strength, not of correctness."""
    if isinstance(problem, LayerProblem):
        return "wrong"
    norms = [x.detach().double().norm(dim=-1).max() if x.numel() else torch.zeros(()) for x in (problem.query, problem.key)]
    scale = problem.query.shape[3] ** -0.5 if problem.scale is None else abs(problem.scale)
    return "fragile" if float(norms[0] * norms[1]) * scale > 5000 else "wrong"


@lru_cache(maxsize=1024)
def one_hot_values(problem: Problem) -> Problem:
    """Keys of 0 and values that name their key: the output of a row is 1/n at each of the n keys that it sees."""
    names = torch.eye(problem.shape[3], dtype=problem.value.dtype).expand(*problem.value.shape[:3], -1)
    return problem.having(key=torch.zeros_like(problem.key), value=names.contiguous())
