"""A failing problem made smaller step by step, as long as it fails in the same way."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwise.attention.position import NOPE
from headwise.axes import Tensor
from headwise.conformance.oracles.attention_oracle import as_float64 as exact
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.plane_slicing import with_heads, with_keys, with_planes, with_queries, with_rows
from headwise.conformance.problems.problem_filter import DEFAULTS
from headwise.errors import HeadwiseError

FEW = 48  # numbers of a tensor that are simplified one by one


@dataclass(frozen=True)
class Effort:
    """How long to try.

    Attributes:
        tries: the number of problems that may be judged, so that a slow machine gives the same result.
        seconds: the time after which it ends in any case.
    """

    tries: int
    seconds: float


class Shrinker:
    """The smallest problem so far, and the effort that is left."""

    def __init__(self, problem: AnyProblem, fails: Callable[[AnyProblem], bool], effort: Effort) -> None:
        self.problem, self.fails = problem, fails
        self.complexity = complexity(problem)
        self.tries, self.end = effort.tries, time.monotonic() + effort.seconds

    @property
    def spent(self) -> bool:
        """Whether no effort is left."""
        return self.tries <= 0 or time.monotonic() > self.end

    def take(self, candidate: AnyProblem) -> bool:
        """Keep a simpler problem if it fails too."""
        if self.spent:
            return False
        try:
            simpler = complexity(candidate)
            if simpler >= self.complexity:
                return False
            self.tries -= 1
            if not self.fails(candidate):
                return False
        except (HeadwiseError, IndexError, RuntimeError, ValueError, ZeroDivisionError):
            return False  # the step made no valid problem
        self.problem, self.complexity = candidate, simpler
        return True

    def take_first(self, steps: Callable[[AnyProblem], Iterable[AnyProblem]]) -> bool:
        """Keep the first of these candidates that fails, and start again, until none does."""
        improved = False
        while any(self.take(candidate) for candidate in steps(self.problem)):
            improved = True
        return improved


def shrink(problem: AnyProblem, fails: Callable[[AnyProblem], bool], effort: Effort) -> tuple[AnyProblem, bool]:
    """The smallest problem found, and whether it is minimal: nothing can be removed from it without the failure disappearing.

    Args:
        fails: whether a problem fails in the same way; it may raise for an invalid problem.
    """
    shrinker = Shrinker(problem, fails, effort)
    improved = True
    while improved and not shrinker.spent:
        passes = [shrinker.take_first(steps) for steps in (fewer_options, shorter_axes, simpler_options)]
        improved = simpler_numbers(shrinker) or any(passes)
    return shrinker.problem, not shrinker.spent


def complexity(problem: AnyProblem) -> tuple[float, ...]:
    """The order of simplicity: fewer numbers, fewer options, float32, a mask that hides less, integers, small numbers."""
    numbers = np.concatenate([exact(tensor).ravel() for tensor in problem.float_tensors().values()])
    finite = numbers[np.isfinite(numbers)]
    mask = 0 if problem.mask is None else problem.mask.numel() + int((~problem.mask).sum())
    options = [value for value in (problem.scale, problem.softcap, problem.window, problem.query_offset) if isinstance(value, int | float)]
    of_options = sum(value != round(value) for value in options) + sum(abs(value) for value in options) / 1e3
    if isinstance(problem.query_offset, Tensor | list | tuple):  # one number for all is simpler
        of_options += 1 + float(torch.as_tensor(problem.query_offset).abs().sum()) / 1e3
    sizes = np.abs(finite)
    return (
        len(numbers),
        len(problem.options),
        int(problem.dtype != torch.float32),
        mask,
        int((finite != finite.round()).sum()) + len(numbers) - len(finite),
        float(sizes.sum()) + int((finite < 0).sum()) / 8,
        of_options,
        float(sizes @ np.arange(1, len(finite) + 1)),
    )


def fewer_options(problem: AnyProblem) -> Iterator[AnyProblem]:
    """The problem without one of its options."""
    for name in problem.options:
        if name in DEFAULTS:
            yield problem.replace(**{name: DEFAULTS[name]})
        elif isinstance(problem, LayerProblem):
            yield problem.replace(**{name: LayerProblem.__dataclass_fields__[name].default})
    if isinstance(problem, LayerProblem):
        for name in ("b_q", "b_k", "b_v", "b_o", "sink"):
            if getattr(problem.params, name) is not None:
                yield problem.replace(**{name: None})


def shorter_axes(problem: AnyProblem) -> Iterator[AnyProblem]:
    """The problem with half of an axis, or one index less."""
    for axis in _axes(problem):
        for kept in _parts(axis.length):
            yield axis.keep(kept)


def _parts(length: int) -> Iterator[list[int]]:
    if length <= 1:
        return
    everything = list(range(length))
    if length > 3:
        yield everything[: length // 2]
        yield everything[length // 2 :]
    for index in reversed(everything):
        yield everything[:index] + everything[index + 1 :]


class _Axis:
    def __init__(self, length: int, keep: Callable[[list[int]], AnyProblem]) -> None:
        self.length, self.keep = length, keep


def _axes(problem: AnyProblem) -> Iterator[_Axis]:
    batch, heads, queries, keys = problem.shape
    if isinstance(problem, LayerProblem):
        yield from _axes_of_layer(problem)
        return
    groups, ratio = problem.key.shape[1], heads // max(problem.key.shape[1], 1)
    head_dim, value_dim = problem.query.shape[3], problem.value.shape[3]
    yield _Axis(batch, lambda kept: with_rows(problem, kept))
    yield _Axis(queries, lambda kept: with_queries(problem, kept))
    yield _Axis(keys, lambda kept: with_keys(problem, kept))
    if queries == keys:
        yield _Axis(queries, lambda kept: with_keys(with_queries(problem, kept), kept))
    if batch == 1:
        yield _Axis(groups, lambda kept: with_heads(problem, [g * ratio + r for g in kept for r in range(ratio)], kept))
        yield _Axis(ratio, lambda kept: with_heads(problem, [g * ratio + r for g in range(groups) for r in kept], list(range(groups))))
        if head_dim == value_dim:
            yield _Axis(head_dim, lambda kept: problem.replace(**{name: getattr(problem, name)[..., kept] for name in ("query", "key", "value")}))
        yield _Axis(head_dim, lambda kept: problem.replace(query=problem.query[..., kept], key=problem.key[..., kept]))
        yield _Axis(head_dim, lambda kept: problem.replace(query=2 * problem.query[..., kept], key=2 * problem.key[..., kept]))
        yield _Axis(value_dim, lambda kept: problem.replace(value=problem.value[..., kept]))


def _axes_of_layer(problem: LayerProblem) -> Iterator[_Axis]:
    batch, heads, queries, keys = problem.shape
    learned, context = problem.params, problem.context
    yield _Axis(batch, lambda kept: with_planes(problem, "B", kept).replace(x=problem.x[kept], context=None if context is None else context[kept]))
    if context is None:
        yield _Axis(queries, lambda kept: with_planes(with_planes(problem, "T", kept), "S", kept).replace(x=problem.x[:, kept]))
    else:
        yield _Axis(queries, lambda kept: with_planes(problem, "T", kept).replace(x=problem.x[:, kept]))
        yield _Axis(keys, lambda kept: with_planes(problem, "S", kept).replace(context=context[:, kept]))
    groups = learned.w_k.shape[1]
    ratio = heads // max(groups, 1)
    yield _Axis(groups, lambda kept: _heads_of_layer(problem, [g * ratio + r for g in kept for r in range(ratio)], kept))
    yield _Axis(ratio, lambda kept: _heads_of_layer(problem, [g * ratio + r for g in range(groups) for r in kept], list(range(groups))))
    yield _Axis(learned.w_v.shape[2], lambda kept: _of_values(problem, kept))
    if problem.position == NOPE:
        yield _Axis(learned.w_q.shape[2], lambda kept: problem.replace(**_last_of(problem, ("w_q", "w_k", "b_q", "b_k"), kept)))
    if context is None:
        yield _Axis(problem.x.shape[2], lambda kept: _of_model(problem, kept))


def _heads_of_layer(problem: LayerProblem, heads: list[int], groups: list[int]) -> LayerProblem:
    """The problem with these query heads and these key/value heads."""
    learned, kept = problem.params, {"q": torch.tensor(heads), "k": torch.tensor(groups), "v": torch.tensor(groups)}
    named = [f"{kind}_{what}" for kind in ("w", "b") for what in kept if getattr(learned, f"{kind}_{what}") is not None]
    changes: dict[str, Any] = {name: getattr(learned, name).index_select(-2, kept[name[2]]) for name in named} | {"w_o": learned.w_o[heads]}
    return with_planes(problem, "H", heads).replace(**changes, sink=None if learned.sink is None else learned.sink[heads])


def _last_of(problem: LayerProblem, names: tuple[str, ...], kept: list[int]) -> dict[str, Tensor]:
    found = {name: getattr(problem.params, name) for name in names}
    return {name: tensor[..., kept] for name, tensor in found.items() if tensor is not None}


def _of_model(problem: LayerProblem, kept: list[int]) -> LayerProblem:
    maps = {name: getattr(problem.params, name)[kept] for name in ("w_q", "w_k", "w_v")}
    return problem.replace(x=problem.x[..., kept], **maps, **_last_of(problem, ("w_o", "b_o"), kept))


def _of_values(problem: LayerProblem, kept: list[int]) -> LayerProblem:
    learned = problem.params
    return problem.replace(w_v=learned.w_v[..., kept], w_o=learned.w_o[:, kept], b_v=None if learned.b_v is None else learned.b_v[:, kept])


def simpler_options(problem: AnyProblem) -> Iterator[AnyProblem]:
    """The problem in float32, with a simpler value of one option, a mask or bias of fewer axes, or one more visible key."""
    if problem.dtype != torch.float32:
        yield problem.to(torch.float32)
    for name, values in {"scale": (1.0, -1.0, 0.0), "softcap": (1.0, 2.0), "window": (1, 2, (0, 0), (1, None)), "query_offset": (0, 1)}.items():
        if getattr(problem, name) is not None:
            now = getattr(problem, name)
            yield from (problem.replace(**{name: value}) for value in values if isinstance(now, Tensor) or now != value)
    for name in ("mask", "bias"):
        plane = getattr(problem, name)
        if plane is None:
            continue
        for axis, length in enumerate(plane.shape):
            if length > 1:
                yield problem.replace(**{name: plane.narrow(axis, 0, 1)})
    if problem.mask is not None and problem.mask.numel() <= 64:
        for index in (~problem.mask).nonzero().tolist():
            mask = problem.mask.clone()
            mask[tuple(index)] = True
            yield problem.replace(mask=mask)


def simpler_numbers(shrinker: Shrinker) -> bool:
    """Simplify whole tensors to 0, 1 or integers, then number by number; return whether anything became simpler."""
    improved = False
    for name in shrinker.problem.float_tensors():
        tensor = shrinker.problem.float_tensors()[name].detach()
        nonfinite = ~tensor.isfinite()
        whole = (torch.zeros_like(tensor), torch.ones_like(tensor), _counted(tensor), tensor.round(), tensor.trunc()) if tensor.numel() else ()
        improved |= any(shrinker.take(shrinker.problem.replace(**{name: torch.where(nonfinite, tensor, simple)})) for simple in whole)
    for name in shrinker.problem.float_tensors():
        if shrinker.problem.float_tensors()[name].numel() <= FEW:
            places = range(shrinker.problem.float_tensors()[name].numel())
            improved |= sum(_simpler_number(shrinker, name, place) for place in places) > 0
    return improved


def _simpler_number(shrinker: Shrinker, name: str, place: int) -> bool:
    tensor = shrinker.problem.float_tensors()[name].detach()
    now = float(tensor.flatten()[place])
    nearest = float(round(now)) if abs(now) < 1e6 else now
    for number in dict.fromkeys((0.0, 1.0, 2.0, nearest, -1.0, abs(now))):
        if number != now:
            changed = tensor.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[place] = number
            if shrinker.take(shrinker.problem.replace(**{name: changed})):
                return True
    return False


def _counted(tensor: Tensor) -> Tensor:
    """1, 2, 3, …: no two equal."""
    return torch.arange(1, tensor.numel() + 1, device=tensor.device).reshape(tensor.shape).to(tensor.dtype)
