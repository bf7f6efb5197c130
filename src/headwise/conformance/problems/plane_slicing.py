"""Problems restricted to some indices of an axis, their masks and biases with them; axes along which these broadcast stay as they are."""

from collections.abc import Sequence
from typing import TypeVar

import torch

from headwise.axes import Tensor
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

AXES = "BHTS"
P = TypeVar("P", Problem, LayerProblem)


def plane_of(plane: Tensor, axis: str, kept: Sequence[int]) -> Tensor:
    """A mask or bias restricted to these indices of one axis of [B, H, T, S].

    Example:
        >>> plane_of(torch.zeros(3, 5), "T", [0, 2]).shape, plane_of(torch.zeros(1, 5), "T", [0, 0, 0]).shape
        (torch.Size([2, 5]), torch.Size([1, 5]))
    """
    dim = AXES.index(axis) - 4 + plane.dim()
    if dim < 0 or plane.shape[dim] == 1:
        return plane
    return plane.index_select(dim, torch.tensor(list(kept), dtype=torch.int64, device=plane.device))


def with_planes(problem: P, axis: str, kept: Sequence[int]) -> P:
    """A problem whose mask and bias are restricted to these indices; its other tensors stay as they are."""
    changes = {name: plane_of(getattr(problem, name), axis, kept) for name in ("mask", "bias") if getattr(problem, name) is not None}
    return problem.replace(**changes) if changes else problem


def with_heads(problem: Problem, heads: Sequence[int], groups: Sequence[int]) -> Problem:
    """The problem with these query heads and these key/value heads."""
    changes: dict[str, Tensor] = {"query": problem.query[:, heads], "key": problem.key[:, groups], "value": problem.value[:, groups]}
    if problem.sink is not None:
        changes["sink"] = problem.sink[heads]
    return with_planes(problem, "H", heads).replace(**changes)


def with_rows(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with these samples of the batch."""
    offset, changes = problem.query_offset, {name: getattr(problem, name)[kept] for name in ("query", "key", "value")}
    if isinstance(offset, Tensor) and offset.dim():
        changes["query_offset"] = offset[kept]
    elif isinstance(offset, list | tuple):
        changes["query_offset"] = [offset[row] for row in kept]
    return with_planes(problem, "B", kept).replace(**changes)


def with_queries(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with these queries."""
    return with_planes(problem, "T", kept).replace(query=problem.query[:, :, kept])


def with_keys(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with these keys and their values."""
    return with_planes(problem, "S", kept).replace(key=problem.key[:, :, kept], value=problem.value[:, :, kept])
