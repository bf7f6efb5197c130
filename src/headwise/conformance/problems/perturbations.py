"""Changes to a problem that several invariants make."""

from functools import lru_cache
from typing import Any, TypeVar

import torch

from headwise.axes import Bool, Float, Tensor
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.random_tensors import noise_like

LARGE = 50.0  # standard deviations of what is added to a key
P = TypeVar("P", Problem, LayerProblem)


def with_key_changed(problem: P, j: int) -> tuple[P, Bool[Tensor, "B T"]]:
    """The same problem with key j and its value changed by large numbers, and which queries have stayed the same."""
    return _with_key_changed(problem, j)


@lru_cache(maxsize=4096)
def _with_key_changed(problem: AnyProblem, j: int) -> tuple[Any, Tensor]:
    unchanged = torch.ones(problem.shape[0], problem.shape[2], dtype=torch.bool)
    if not isinstance(problem, LayerProblem):
        return problem.replace(key=_disturbed(problem.key, 2, j), value=_disturbed(problem.value, 2, j)), unchanged
    if problem.context is not None:
        return problem.replace(context=_disturbed(problem.context, 1, j)), unchanged
    unchanged[:, j] = False
    return problem.replace(x=_disturbed(problem.x, 1, j)), unchanged


def _disturbed(x: Tensor, axis: int, j: int) -> Tensor:
    changed = x.clone()
    changed.select(axis, j).add_(LARGE * noise_like(changed.select(axis, j), seed=92))
    return changed


def only_head(w_o: Float[Tensor, "H E M"], head: int) -> Float[Tensor, "H E M"]:
    """The rows of one head, all others 0."""
    kept = torch.zeros_like(w_o)
    kept[head] = w_o[head]
    return kept


def changed(problem: P, **changes: Any) -> P:
    """`problem.replace(**changes)`, the same object for the same changes, so that its expected answer is computed once."""
    return _changed(problem, tuple(changes.items()))


@lru_cache(maxsize=1024)
def _changed(problem: Any, changes: tuple[tuple[str, Any], ...]) -> Any:
    return problem.replace(**dict(changes))


def as_dtype(problem: P, dtype: torch.dtype) -> P:
    """`problem.to(dtype)`, the same object every time."""
    return _as_dtype(problem, dtype)


@lru_cache(maxsize=4096)
def _as_dtype(problem: Any, dtype: torch.dtype) -> Any:
    return problem.to(dtype)


@lru_cache(maxsize=1024)
def one_hot_values(problem: Problem) -> Problem:
    """Keys of 0 and one-hot values: each row of the output is 1/n at the n keys that are visible to it."""
    identity = torch.eye(problem.shape[3], dtype=problem.value.dtype).expand(*problem.value.shape[:3], -1)
    return problem.replace(key=torch.zeros_like(problem.key), value=identity.contiguous())
