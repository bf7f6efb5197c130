"""The same problem in other arguments: flags as a mask, a mask as a bias, without broadcasting."""

from functools import lru_cache
from typing import Any

import torch

from headwise.axes import Bool, Tensor
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem


@lru_cache(maxsize=2048)
def as_mask(problem: Problem, conventions: Conventions) -> Problem | None:
    """Causality and window as a mask; None where the problem has neither."""
    if not problem.causal and problem.window is None:
        return None
    visible = problem.replace(bias=None).visible(conventions).to(problem.query.device)
    same_for_heads = bool((visible == visible[:, :1]).all())
    return problem.replace(causal=False, window=None, query_offset=None, mask=visible[:, :1] if same_for_heads else visible)


@lru_cache(maxsize=2048)
def without_broadcasting(problem: Problem) -> Problem | None:
    """Mask and bias expanded to their full shape; None where nothing broadcasts."""
    planes = {name: getattr(problem, name) for name in ("mask", "bias") if getattr(problem, name) is not None}
    changes: dict[str, Any] = {name: plane.expand(problem.shape).contiguous() for name, plane in planes.items() if tuple(plane.shape) != problem.shape}
    return problem.replace(**changes) if changes else None


@lru_cache(maxsize=2048)
def as_bias(problem: Problem) -> Problem | None:
    """The mask as a bias of 0 and -inf; None where there is no mask."""
    if problem.mask is None:
        return None
    hidden = as_additive(problem.mask, problem.query)
    return problem.replace(mask=None, bias=hidden if problem.bias is None else problem.bias + hidden)


def as_additive(mask: Bool[Tensor, "..."], like: Tensor) -> Tensor:
    """0 where the mask is True, -inf elsewhere, in the dtype of `like`."""
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(~mask, -torch.inf)


@lru_cache(maxsize=2048)
def split_mask(problem: Problem) -> tuple[Tensor, Tensor] | None:
    """Two masks whose intersection is the mask, each hiding every second hidden key; None where there is no mask."""
    if problem.mask is None:
        return None
    even = (torch.arange(problem.mask.shape[-1], device=problem.mask.device) % 2 == 0).expand(problem.mask.shape)
    return problem.mask | even, problem.mask | ~even
