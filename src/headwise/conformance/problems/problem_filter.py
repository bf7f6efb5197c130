"""Problems restricted to what a subject supports: options that it lacks are removed, and never count against it."""

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from typing import Any

import torch

from headwise.attention.position import NOPE, Alibi, RelativeBuckets, Rotary
from headwise.axes import Tensor
from headwise.conformance.capabilities import OPTIONS, CheckLevel
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.subject import Subject

LONG, LONG_LAYER, WIDE = 130, 20, 64  # tokens and features that every implementation is expected to take
DEFAULTS = {name: Problem.__dataclass_fields__[name].default for name in OPTIONS}


def fit_to_subject(make: Callable[[CheckLevel], Iterable[AnyProblem]]) -> Callable[[Subject, CheckLevel], tuple[Any, ...]]:
    """The problems of an invariant, restricted to each subject; made once for all subjects that support the same."""

    @lru_cache(maxsize=64)
    def restricted(kind: type, supports: frozenset[str], dtype: torch.dtype, device: torch.device, level: CheckLevel) -> tuple[AnyProblem, ...]:
        found: dict[Hashable, AnyProblem] = {}
        for n, problem in enumerate(make(level)):
            used = _without_extras(supports, n) if type(problem) is Problem else supports  # an example computed by hand stays as it is
            fitted = _moved(problem, used, dtype, device) if isinstance(problem, kind) else None
            if fitted is not None:
                found.setdefault(_signature(fitted) if len(fitted.options) < len(problem.options) else id(fitted), fitted)
        return tuple(found.values())

    @wraps(make)
    def problems(subject: Subject, level: CheckLevel) -> tuple[Any, ...]:
        return restricted(Problem if subject.level == "call" else LayerProblem, subject.supports, subject.dtypes[0], subject.device, level)

    return problems


def _without_extras(supports: frozenset[str], n: int) -> frozenset[str]:
    """Every second problem has values as wide as keys, and every fourth as many key heads as query heads too: the only kind that fused kernels take."""
    return supports - (frozenset({"value_width", "groups"}) if n % 4 == 3 else frozenset({"value_width"}) if n % 2 else frozenset())


@lru_cache(maxsize=4096)
def _moved(problem: AnyProblem, supports: frozenset[str], dtype: torch.dtype, device: torch.device) -> AnyProblem | None:
    fitted = fit(problem, supports)
    return None if fitted is None else fitted.to(dtype, device)


def fit(problem: AnyProblem, supports: frozenset[str]) -> AnyProblem | None:
    """The same problem without unsupported options; None where nothing would be left of it."""
    if not problem.shape[0] * problem.shape[1] * problem.shape[2] * problem.shape[3] and "empty" not in supports:
        return None
    if not _within_size(problem, supports):
        return None
    changes: dict[str, Any] = {name: DEFAULTS[name] for name in OPTIONS if name not in supports and name in problem.options}
    if isinstance(problem, LayerProblem):
        changes |= _layer_changes(problem, supports) or {}
        if "context" in changes or "chunks" in changes:
            return None
    else:
        changes |= _tensor_changes(problem, supports)
    by_head = [(name, plane) for name, plane in _planes(problem, changes) if plane.dim() > 2 and plane.shape[-3] > 1]
    changes |= {name: first_head(plane) for name, plane in by_head if "mask_by_head" not in supports}
    if "offset_by_row" not in supports and not isinstance(problem.query_offset, int | None) and "query_offset" not in changes:
        changes["query_offset"] = int(torch.as_tensor(problem.query_offset).reshape(-1)[0])
    return problem.replace(**changes) if changes else problem


def _within_size(problem: AnyProblem, supports: frozenset[str]) -> bool:
    """Whether it is neither longer nor wider than the subject takes."""
    if isinstance(problem, LayerProblem):
        return "long" in supports or max(problem.shape[2:]) <= LONG_LAYER
    long, wide = max(problem.shape[2:]) > LONG, max(problem.query.shape[3], problem.value.shape[3]) > WIDE
    return ("long" in supports or not long) and ("wide" in supports or not wide)


def first_head(plane: Tensor) -> Tensor:
    """The mask or bias of head 0, for every head."""
    return plane[..., :1, :, :]


def _planes(problem: AnyProblem, changes: dict[str, Any]) -> list[tuple[str, Tensor]]:
    planes = [(name, getattr(problem, name)) for name in ("mask", "bias") if name not in changes]
    return [(name, plane) for name, plane in planes if plane is not None]


def _tensor_changes(problem: Problem, supports: frozenset[str]) -> dict[str, Tensor]:
    key, value, (heads, width) = problem.key, problem.value, (problem.query.shape[1], problem.query.shape[3])
    if "groups" not in supports and 0 < key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
    if "value_width" not in supports and value.shape[3] != width:
        value = torch.cat([value] * -(-width // max(value.shape[3], 1)), -1)[..., :width].contiguous()
    return {} if key is problem.key and value is problem.value else {"key": key, "value": value}


def _layer_changes(problem: LayerProblem, supports: frozenset[str]) -> dict[str, Any]:
    parameters, changes = problem.params, {}
    if problem.context is not None and "context" not in supports:
        changes["context"] = None
    if problem.chunks and "chunks" not in supports:
        changes["chunks"] = ()
    position = {Rotary: "rotary", Alibi: "alibi", RelativeBuckets: "buckets"}.get(type(problem.position))
    if position is not None and position not in supports:
        changes["position"] = NOPE
    if "biases" not in supports:
        changes |= {name: None for name in ("b_q", "b_k", "b_v", "b_o") if getattr(parameters, name) is not None}
    if "sink" not in supports and parameters.sink is not None:
        changes["sink"] = None
    heads = parameters.w_q.shape[1]
    if "groups" not in supports and parameters.w_k.shape[1] != heads:
        shared = [name for name in ("w_k", "w_v", "b_k", "b_v") if name not in changes and getattr(parameters, name) is not None]
        changes |= {name: getattr(parameters, name).repeat_interleave(heads // parameters.w_k.shape[1], -2) for name in shared}
    return changes


def _signature(problem: AnyProblem) -> Hashable:
    """What two problems of the same shapes and options have in common."""
    return tuple((name, tuple(x.shape) if isinstance(x, Tensor) else str(x)) for name, x in (*problem.float_tensors().items(), *problem.options.items()))
