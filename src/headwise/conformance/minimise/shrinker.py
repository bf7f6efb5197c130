"""A failing problem made smaller, step by step, as long as it fails in the same way."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwise.attention.position import NOPE
from headwise.axes import Tensor
from headwise.conformance.oracles.attention_oracle import numbers as exact
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.plane_slicing import with_heads, with_keys, with_planes, with_queries, with_rows
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_filter import USUAL
from headwise.errors import HeadwiseError

AnyProblem = Problem | LayerProblem
FEW = 48  # numbers of a tensor that are worth taking one by one


@dataclass(frozen=True)
class Effort:
    """How long to try.

    Attributes:
        tries: problems that may be judged, so that a run gives the same on a slow machine.
        seconds: after which it ends all the same.
    """

    tries: int
    seconds: float


class Shrinker:
    """The smallest problem so far, and what is left of the effort."""

    def __init__(self, problem: AnyProblem, fails: Callable[[AnyProblem], bool], effort: Effort) -> None:
        self.problem, self.fails = problem, fails
        self.weight = weight(problem)
        self.tries, self.end = effort.tries, time.monotonic() + effort.seconds

    @property
    def spent(self) -> bool:
        return self.tries <= 0 or time.monotonic() > self.end

    def take(self, candidate: AnyProblem) -> bool:
        """Take a smaller problem if it fails too."""
        if self.spent:
            return False
        try:
            lighter = weight(candidate)
            if lighter >= self.weight:
                return False
            self.tries -= 1
            if not self.fails(candidate):
                return False
        except (HeadwiseError, IndexError, RuntimeError, ValueError, ZeroDivisionError):
            return False  # the step led to no problem at all
        self.problem, self.weight = candidate, lighter
        return True

    def take_first(self, steps: Callable[[AnyProblem], Iterable[AnyProblem]]) -> bool:
        """Take the first that fails of these steps, and again, until none does."""
        improved = False
        while any(self.take(candidate) for candidate in steps(self.problem)):
            improved = True
        return improved


def shrunk(problem: AnyProblem, fails: Callable[[AnyProblem], bool], effort: Effort) -> tuple[AnyProblem, bool]:
    """The smallest problem that was found, and whether it is a least one: nothing can be taken from it without the failure going away.

    Args:
        fails: whether a problem fails in the same way; problems that make no sense may raise.
    """
    shrinker = Shrinker(problem, fails, effort)
    improved = True
    while improved and not shrinker.spent:
        passes = [shrinker.take_first(steps) for steps in (fewer_options, shorter_axes, simpler_options)]
        improved = simpler_numbers(shrinker) or any(passes)
    return shrinker.problem, not shrinker.spent


def weight(problem: AnyProblem) -> tuple[float, ...]:
    """Smaller comes first: fewer numbers, fewer options, the usual dtype, a mask that hides less, whole numbers, small ones."""
    numbers = np.concatenate([exact(tensor).ravel() for tensor in problem.floats().values()])
    finite = numbers[np.isfinite(numbers)]
    mask = 0 if problem.mask is None else problem.mask.numel() + int((~problem.mask).sum())
    loose = [value for value in (problem.scale, problem.softcap, problem.window, problem.query_offset) if isinstance(value, int | float)]
    oddness = sum(value != round(value) for value in loose) + sum(abs(value) for value in loose) / 1e3
    if isinstance(problem.query_offset, Tensor | list | tuple):  # one number for all is plainer
        oddness += 1 + float(torch.as_tensor(problem.query_offset).abs().sum()) / 1e3
    sizes = np.abs(finite)
    return (
        len(numbers),
        len(problem.options),
        int(_dtype(problem) != torch.float32),
        mask,
        int((finite != finite.round()).sum()) + len(numbers) - len(finite),
        float(sizes.sum()) + int((finite < 0).sum()) / 8,
        oddness,
        float(sizes @ np.arange(1, len(finite) + 1)),
    )


def _dtype(problem: AnyProblem) -> torch.dtype:
    return problem.x.dtype if isinstance(problem, LayerProblem) else problem.query.dtype


def fewer_options(problem: AnyProblem) -> Iterator[AnyProblem]:
    """Without one of its options."""
    for name in problem.options:
        if name in USUAL:
            yield problem.having(**{name: USUAL[name]})
        elif isinstance(problem, LayerProblem):
            yield problem.having(**{name: LayerProblem.__dataclass_fields__[name].default})
    if isinstance(problem, LayerProblem):
        for name in ("b_q", "b_k", "b_v", "b_o", "sink"):
            if getattr(problem.params, name) is not None:
                yield problem.having(**{name: None})


def shorter_axes(problem: AnyProblem) -> Iterator[AnyProblem]:
    """Half of an axis, or one index less."""
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
    width, wide = problem.query.shape[3], problem.value.shape[3]
    yield _Axis(batch, lambda kept: with_rows(problem, kept))
    yield _Axis(queries, lambda kept: with_queries(problem, kept))
    yield _Axis(keys, lambda kept: with_keys(problem, kept))
    if queries == keys:
        yield _Axis(queries, lambda kept: with_keys(with_queries(problem, kept), kept))
    if batch == 1:
        yield _Axis(groups, lambda kept: with_heads(problem, [g * ratio + r for g in kept for r in range(ratio)], kept))
        yield _Axis(ratio, lambda kept: with_heads(problem, [g * ratio + r for g in range(groups) for r in kept], list(range(groups))))
        if width == wide:
            yield _Axis(width, lambda kept: problem.having(**{name: getattr(problem, name)[..., kept] for name in ("query", "key", "value")}))
        yield _Axis(width, lambda kept: problem.having(query=problem.query[..., kept], key=problem.key[..., kept]))
        yield _Axis(width, lambda kept: problem.having(query=2 * problem.query[..., kept], key=2 * problem.key[..., kept]))
        yield _Axis(wide, lambda kept: problem.having(value=problem.value[..., kept]))


def _axes_of_layer(problem: LayerProblem) -> Iterator[_Axis]:
    batch, heads, queries, keys = problem.shape
    params, context = problem.params, problem.context
    yield _Axis(batch, lambda kept: with_planes(problem, "B", kept).having(x=problem.x[kept], context=None if context is None else context[kept]))
    if context is None:
        yield _Axis(queries, lambda kept: with_planes(with_planes(problem, "T", kept), "S", kept).having(x=problem.x[:, kept]))
    else:
        yield _Axis(queries, lambda kept: with_planes(problem, "T", kept).having(x=problem.x[:, kept]))
        yield _Axis(keys, lambda kept: with_planes(problem, "S", kept).having(context=context[:, kept]))
    groups = params.w_k.shape[1]
    ratio = heads // max(groups, 1)
    yield _Axis(groups, lambda kept: _heads_of_layer(problem, [g * ratio + r for g in kept for r in range(ratio)], kept))
    yield _Axis(ratio, lambda kept: _heads_of_layer(problem, [g * ratio + r for g in range(groups) for r in kept], list(range(groups))))
    yield _Axis(params.w_v.shape[2], lambda kept: _of_values(problem, kept))
    if problem.position == NOPE:
        yield _Axis(params.w_q.shape[2], lambda kept: problem.having(**_last_of(problem, ("w_q", "w_k", "b_q", "b_k"), kept)))
    if context is None:
        yield _Axis(problem.x.shape[2], lambda kept: _of_model(problem, kept))


def _heads_of_layer(problem: LayerProblem, heads: list[int], groups: list[int]) -> LayerProblem:
    """These query heads and these key heads."""
    params, kept = problem.params, {"q": torch.tensor(heads), "k": torch.tensor(groups), "v": torch.tensor(groups)}
    named = [f"{kind}_{what}" for kind in ("w", "b") for what in kept if getattr(params, f"{kind}_{what}") is not None]
    changes: dict[str, Any] = {name: getattr(params, name).index_select(-2, kept[name[2]]) for name in named} | {"w_o": params.w_o[heads]}
    return with_planes(problem, "H", heads).having(**changes, sink=None if params.sink is None else params.sink[heads])


def _last_of(problem: LayerProblem, names: tuple[str, ...], kept: list[int]) -> dict[str, Tensor]:
    found = {name: getattr(problem.params, name) for name in names}
    return {name: tensor[..., kept] for name, tensor in found.items() if tensor is not None}


def _of_model(problem: LayerProblem, kept: list[int]) -> LayerProblem:
    maps = {name: getattr(problem.params, name)[kept] for name in ("w_q", "w_k", "w_v")}
    return problem.having(x=problem.x[..., kept], **maps, **_last_of(problem, ("w_o", "b_o"), kept))


def _of_values(problem: LayerProblem, kept: list[int]) -> LayerProblem:
    params = problem.params
    return problem.having(w_v=params.w_v[..., kept], w_o=params.w_o[:, kept], b_v=None if params.b_v is None else params.b_v[:, kept])


def simpler_options(problem: AnyProblem) -> Iterator[AnyProblem]:
    """The usual dtype, numbers near 0 for numbers, a mask for fewer axes, True for False."""
    if _dtype(problem) != torch.float32:
        yield problem.to(torch.float32)
    for name, values in {"scale": (1.0, -1.0, 0.0), "softcap": (1.0, 2.0), "window": (1, 2, (0, 0), (1, None)), "query_offset": (0, 1)}.items():
        if getattr(problem, name) is not None:
            now = getattr(problem, name)
            yield from (problem.having(**{name: value}) for value in values if isinstance(now, Tensor) or now != value)
    for name in ("mask", "bias"):
        plane = getattr(problem, name)
        if plane is None:
            continue
        for axis, length in enumerate(plane.shape):
            if length > 1:
                yield problem.having(**{name: plane.narrow(axis, 0, 1)})
    if problem.mask is not None and problem.mask.numel() <= 64:
        for index in (~problem.mask).nonzero().tolist():
            mask = problem.mask.clone()
            mask[tuple(index)] = True
            yield problem.having(mask=mask)


def simpler_numbers(shrinker: Shrinker) -> bool:
    """Whole tensors of 0, 1 or whole numbers, then number by number; whether anything became simpler."""
    improved = False
    for name in shrinker.problem.floats():
        tensor = shrinker.problem.floats()[name].detach()
        strange = ~tensor.isfinite()
        whole = (torch.zeros_like(tensor), torch.ones_like(tensor), _counted(tensor), tensor.round(), tensor.trunc()) if tensor.numel() else ()
        improved |= any(shrinker.take(shrinker.problem.having(**{name: torch.where(strange, tensor, simple)})) for simple in whole)
    for name in shrinker.problem.floats():
        if shrinker.problem.floats()[name].numel() <= FEW:
            places = range(shrinker.problem.floats()[name].numel())
            improved |= sum(_simpler_number(shrinker, name, place) for place in places) > 0
    return improved


def _simpler_number(shrinker: Shrinker, name: str, place: int) -> bool:
    tensor = shrinker.problem.floats()[name].detach()
    now = float(tensor.flatten()[place])
    nearest = float(round(now)) if abs(now) < 1e6 else now
    for number in dict.fromkeys((0.0, 1.0, 2.0, nearest, -1.0, abs(now))):
        if number != now:
            changed = tensor.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[place] = number
            if shrinker.take(shrinker.problem.having(**{name: changed})):
                return True
    return False


def _counted(tensor: Tensor) -> Tensor:
    """1, 2, 3, …: no two alike."""
    return torch.arange(1, tensor.numel() + 1, device=tensor.device).reshape(tensor.shape).to(tensor.dtype)
