"""Masks and biases with some of the indices of an axis of [B, H, T, S]; axes along which they broadcast stay as they are."""

from collections.abc import Sequence
from typing import Any

import torch

from headwise.axes import Tensor
from headwise.conformance.problems.problem import Problem

AXES = "BHTS"


def plane_of(plane: Tensor, axis: str, kept: Sequence[int]) -> Tensor:
    """One plane with these indices of an axis.

    Example:
        >>> plane_of(torch.zeros(3, 5), "T", [0, 2]).shape, plane_of(torch.zeros(1, 5), "T", [0, 0, 0]).shape
        (torch.Size([2, 5]), torch.Size([1, 5]))
    """
    place = AXES.index(axis) - 4 + plane.dim()
    if place < 0 or plane.shape[place] == 1:
        return plane
    return plane.index_select(place, torch.tensor(list(kept), dtype=torch.int64, device=plane.device))


def with_planes(problem: Any, axis: str, kept: Sequence[int]) -> Any:
    """A problem whose mask and bias have these indices only; its other tensors are as they were."""
    changes = {name: plane_of(getattr(problem, name), axis, kept) for name in ("mask", "bias") if getattr(problem, name) is not None}
    return problem.having(**changes) if changes else problem


def with_heads(problem: Problem, heads: Sequence[int], groups: Sequence[int]) -> Problem:
    """These query heads and these key heads."""
    changes: dict[str, Tensor] = {"query": problem.query[:, heads], "key": problem.key[:, groups], "value": problem.value[:, groups]}
    if problem.sink is not None:
        changes["sink"] = problem.sink[heads]
    return with_planes(problem, "H", heads).having(**changes)


def with_rows(problem: Problem, kept: Sequence[int]) -> Problem:
    """These rows of the batch."""
    offset, changes = problem.query_offset, {name: getattr(problem, name)[kept] for name in ("query", "key", "value")}
    if isinstance(offset, Tensor) and offset.dim():
        changes["query_offset"] = offset[kept]
    elif isinstance(offset, list | tuple):
        changes["query_offset"] = [offset[row] for row in kept]
    return with_planes(problem, "B", kept).having(**changes)


def with_queries(problem: Problem, kept: Sequence[int]) -> Problem:
    """These queries."""
    return with_planes(problem, "T", kept).having(query=problem.query[:, :, kept])


def with_keys(problem: Problem, kept: Sequence[int]) -> Problem:
    """These keys and their values."""
    return with_planes(problem, "S", kept).having(key=problem.key[:, :, kept], value=problem.value[:, :, kept])
