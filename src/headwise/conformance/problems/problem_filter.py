"""Problems cut to what a subject knows: options that it does not honour are taken away, never held against it."""

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from typing import Any

import torch

from headwise.attention.position import NOPE, Alibi, RelativeBuckets, Rotary
from headwise.axes import Tensor
from headwise.conformance.adapters.subject import OPTIONS
from headwise.conformance.invariants.law import Level
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

LONG, LONG_LAYER, WIDE = 130, 20, 64  # tokens and features that everybody is expected to take
USUAL = {name: Problem.__dataclass_fields__[name].default for name in OPTIONS}


def pooled(make: Callable[[Level], Iterable[Problem | LayerProblem]]) -> Callable[[Any, Level], tuple]:
    """The problems that a law is tried on, cut to each subject; made once for all subjects that know the same words."""

    @lru_cache(maxsize=64)
    def cut(kind: type, honours: frozenset[str], dtype: torch.dtype, device: torch.device, level: Level) -> tuple:
        found: dict[Hashable, Problem | LayerProblem] = {}
        for n, problem in enumerate(make(level)):
            known = _few(honours, n) if type(problem) is Problem else honours  # what was worked out by hand stays as it is
            fit = _cut(problem, known, dtype, device) if isinstance(problem, kind) else None
            if fit is not None:
                found.setdefault(_kind(fit) if len(fit.options) < len(problem.options) else id(fit), fit)
        return tuple(found.values())

    @wraps(make)
    def problems(subject: Any, level: Level) -> tuple:
        return cut(Problem if subject.level == "call" else LayerProblem, subject.honours, subject.dtypes[0], subject.device, level)

    return problems


def _few(honours: frozenset[str], n: int) -> frozenset[str]:
    """Every second problem has values as wide as keys, and every fourth a key head for each query head too: fused kernels take no other."""
    return honours - (frozenset({"value_width", "groups"}) if n % 4 == 3 else frozenset({"value_width"}) if n % 2 else frozenset())


@lru_cache(maxsize=4096)
def _cut(problem: Problem | LayerProblem, honours: frozenset[str], dtype: torch.dtype, device: torch.device) -> Problem | LayerProblem | None:
    fit = fitted(problem, honours)
    return None if fit is None else fit.to(dtype, device)


def fitted(problem: Problem | LayerProblem, honours: frozenset[str]) -> Problem | LayerProblem | None:
    """The same problem without what is not honoured; None where nothing would be left of it."""
    if not problem.shape[0] * problem.shape[1] * problem.shape[2] * problem.shape[3] and "empty" not in honours:
        return None
    if not _has_room(problem, honours):
        return None
    changes: dict[str, Any] = {name: USUAL[name] for name in OPTIONS if name not in honours and name in problem.options}
    if isinstance(problem, LayerProblem):
        changes |= _of_layer(problem, honours) or {}
        if "context" in changes or "chunks" in changes:
            return None
    else:
        changes |= _of_tensors(problem, honours)
    by_head = [(name, plane) for name, plane in _planes(problem, changes) if plane.dim() > 2 and plane.shape[-3] > 1]
    changes |= {name: one_for_all(plane) for name, plane in by_head if "mask_by_head" not in honours}
    if "offset_by_row" not in honours and not isinstance(problem.query_offset, int | None) and "query_offset" not in changes:
        changes["query_offset"] = int(torch.as_tensor(problem.query_offset).reshape(-1)[0])
    return problem.having(**changes) if changes else problem


def _has_room(problem: Problem | LayerProblem, honours: frozenset[str]) -> bool:
    """Whether it is neither longer nor wider than the subject takes."""
    if isinstance(problem, LayerProblem):
        return "long" in honours or max(problem.shape[2:]) <= LONG_LAYER
    long, wide = max(problem.shape[2:]) > LONG, max(problem.query.shape[3], problem.value.shape[3]) > WIDE
    return ("long" in honours or not long) and ("wide" in honours or not wide)


def one_for_all(plane: Tensor) -> Tensor:
    """The mask or bias of head 0, for all heads."""
    return plane[..., :1, :, :]


def _planes(problem: Problem | LayerProblem, changes: dict[str, Any]) -> list[tuple[str, Tensor]]:
    planes = [(name, getattr(problem, name)) for name in ("mask", "bias") if name not in changes]
    return [(name, plane) for name, plane in planes if plane is not None]


def _of_tensors(problem: Problem, honours: frozenset[str]) -> dict[str, Tensor]:
    key, value, (heads, width) = problem.key, problem.value, (problem.query.shape[1], problem.query.shape[3])
    if "groups" not in honours and 0 < key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
    if "value_width" not in honours and value.shape[3] != width:
        value = torch.cat([value] * -(-width // max(value.shape[3], 1)), -1)[..., :width].contiguous()
    return {} if key is problem.key and value is problem.value else {"key": key, "value": value}


def _of_layer(problem: LayerProblem, honours: frozenset[str]) -> dict[str, Any]:
    params, changes = problem.params, {}
    if problem.context is not None and "context" not in honours:
        changes["context"] = None
    if problem.chunks and "chunks" not in honours:
        changes["chunks"] = ()
    known = {Rotary: "rotary", Alibi: "alibi", RelativeBuckets: "buckets"}.get(type(problem.position))
    if known is not None and known not in honours:
        changes["position"] = NOPE
    if "biases" not in honours:
        changes |= {name: None for name in ("b_q", "b_k", "b_v", "b_o") if getattr(params, name) is not None}
    if "sink" not in honours and params.sink is not None:
        changes["sink"] = None
    heads = params.w_q.shape[1]
    if "groups" not in honours and params.w_k.shape[1] != heads:
        named = [name for name in ("w_k", "w_v", "b_k", "b_v") if name not in changes and getattr(params, name) is not None]
        changes |= {name: getattr(params, name).repeat_interleave(heads // params.w_k.shape[1], -2) for name in named}
    return changes


def _kind(problem: Problem | LayerProblem) -> Hashable:
    return tuple((name, tuple(x.shape) if isinstance(x, Tensor) else str(x)) for name, x in (*problem.floats().items(), *problem.options.items()))
