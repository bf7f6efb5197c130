"""The same problem said in other words: flags written out as a mask, a mask as a bias, what broadcasts written out."""

from functools import lru_cache
from typing import Any

import torch

from headwise.axes import Bool, Tensor
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.problem import Problem


@lru_cache(maxsize=2048)
def as_mask(problem: Problem, conventions: Conventions) -> Problem | None:
    """Causality and window as a mask; None where there is neither."""
    if not problem.causal and problem.window is None:
        return None
    seen = problem.having(bias=None).seen(conventions).to(problem.query.device)
    alike = bool((seen == seen[:, :1]).all())
    return problem.having(causal=False, window=None, query_offset=None, mask=seen[:, :1] if alike else seen)


@lru_cache(maxsize=2048)
def written_out(problem: Problem) -> Problem | None:
    """A mask and a bias of full shape; None where they are of that already, or there are none."""
    planes = {name: getattr(problem, name) for name in ("mask", "bias") if getattr(problem, name) is not None}
    changes: dict[str, Any] = {name: plane.expand(problem.shape).contiguous() for name, plane in planes.items() if tuple(plane.shape) != problem.shape}
    return problem.having(**changes) if changes else None


@lru_cache(maxsize=2048)
def as_bias(problem: Problem) -> Problem | None:
    """The mask as a bias of 0 and -inf; None without a mask."""
    if problem.mask is None:
        return None
    hidden = minus_infinity(problem.mask, problem.query)
    return problem.having(mask=None, bias=hidden if problem.bias is None else problem.bias + hidden)


def minus_infinity(mask: Bool[Tensor, "..."], like: Tensor) -> Tensor:
    """0 where the mask says True, -inf where not."""
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(~mask, -torch.inf)


@lru_cache(maxsize=2048)
def halves(problem: Problem) -> tuple[Tensor, Tensor] | None:
    """Two masks that hide, between them, what the mask hides: every second hidden key each. None without a mask."""
    if problem.mask is None:
        return None
    even = (torch.arange(problem.mask.shape[-1], device=problem.mask.device) % 2 == 0).expand(problem.mask.shape)
    return problem.mask | even, problem.mask | ~even
