"""Planes of positions that hold one number a diagonal: what depends on the distance of key and query alone.

Models that add a bias by distance (T5 and its kin, MPNet, WavLM) begin with `key position - query position` for every pair, make a bucket of it
and look the bucket up: T x S numbers, again and again, of which only T + S - 1 differ. While a pass of ours runs over a long input that first
difference is answered with `Diagonals`, which go through the model's own code like a tensor of the full shape and hold one number a diagonal.
What that code does with them is done to the diagonals; anything that is not done cell by cell gets the tensor itself.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from headwise.attention.call import Tiled
from headwise.axes import Float, Tensor

LEAST = 1 << 22  # cells of a plane that are worth it: 2048 x 2048

_aten = torch.ops.aten
_LIKE = frozenset((_aten.zeros_like.default, _aten.ones_like.default, _aten.full_like.default, _aten.empty_like.default))
_KEPT = frozenset((_aten.alias.default, _aten.detach.default, _aten.clone.default, _aten._to_copy.default, _aten.lift_fresh.default))


class DiagonalTensor(torch.Tensor):
    """A tensor whose cells are the same along the diagonals of two of its axes.

    Attributes:
        line: the same axes; that of the queries has length 1, that of the keys T + S - 1: from the last query's first key to the first query's last.
        axes: of queries and keys, counted from the end.
        made: every cell, once the model has had them in its hands and may have written into them: then these count.
    """

    line: Tensor
    axes: tuple[int, int]
    queries: int
    made: Tensor | None

    @staticmethod
    def __new__(cls, line: Tensor, axes: tuple[int, int], queries: int) -> "DiagonalTensor":
        shape = list(line.shape)
        shape[axes[0]], shape[axes[1]] = queries, line.shape[axes[1]] - queries + 1
        one = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=line.dtype, device=line.device)  # pyright: ignore[reportAttributeAccessIssue]
        one.line, one.axes, one.queries, one.made = line, axes, queries, None
        return one

    def __repr__(self, **_: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"Diagonals({list(self.shape)})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = _by_diagonal(func, args, kwargs)
        if found is not None:
            return found
        args, kwargs = tree_map_only(DiagonalTensor, DiagonalTensor.whole, (args, kwargs))
        return func(*args, **kwargs)

    def whole(self) -> Tensor:
        """Every cell."""
        if self.made is None:
            row, key = self.axes
            at = key if key > row else key + 1
            strips = self.line.select(row, 0).unfold(at, self.shape[key], 1)  # from the last query to the first
            self.made = strips.movedim((at - 1, -1), (row, key)).flip(row)
        return self.made

    def plane(self) -> "DiagonalBias | None":
        """The bias that this is, [1, H, T, S]; None where it adds nothing."""
        line = self.line.reshape((1,) * (4 - self.line.dim()) + tuple(self.line.shape))
        return DiagonalBias(line, self.queries) if bool((line != 0).any()) else None


class DiagonalBias(Tiled):
    """A bias by distance, evaluated tile by tile."""

    def __init__(self, line: Float[Tensor, "#B #H 1 n"], queries: int) -> None:
        self.line, self.queries = line, queries

    def tile(self, rows: slice, keys: slice) -> Float[Tensor, "#B #H t s"]:
        start = self.queries - rows.stop + keys.start
        width = keys.stop - keys.start
        strip = self.line[:, :, 0, start : start + rows.stop - rows.start + width - 1]
        return strip.unfold(-1, width, 1).flip(-2)


class DistanceMode(TorchDispatchMode):
    """Answers differences of positions with diagonals, while none of our own code runs."""

    supports_higher_order_operators = True  # and lets them through as they are

    def __init__(self, scene: Any) -> None:
        super().__init__()
        self.scene = scene

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _aten.sub.Tensor and not self.scene.busy and not kwargs:
            found = _difference(*args[:2])
        elif func is _aten.zeros.default and not self.scene.busy:
            found = _zeros(args[0], kwargs)
        else:
            found = None
        return func(*args, **kwargs) if found is None else found


def are_long(inputs: Mapping[str, Any]) -> bool:
    """Whether planes of an input's positions would be large."""
    return any(isinstance(x, Tensor) and x.dim() > 1 and max(x.shape[1:]) ** 2 >= LEAST for x in inputs.values())


def _difference(one: Any, other: Any) -> DiagonalTensor | None:
    """Keys minus queries, or queries minus keys, where both are positions in a row."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)) or type(one) is not Tensor or type(other) is not Tensor:
        return None
    if one.dim() < 2 or one.dim() != other.dim() or one.numel() * other.numel() < LEAST or one.is_floating_point() or one.dtype != other.dtype:
        return None
    lengths = [(x.shape[-2], x.shape[-1]) for x in (one, other)]
    (a, b), (c, d) = lengths
    if one.numel() != a * b or other.numel() != c * d or not ((a, d) == (1, 1) or (b, c) == (1, 1)) or not (_in_a_row(one) and _in_a_row(other)):
        return None
    keys_first = (a, d) == (1, 1)
    queries, keys = (c, b) if keys_first else (a, d)
    away = torch.arange(-(queries - 1), keys, device=one.device, dtype=one.dtype)
    start = one.flatten()[0] - other.flatten()[0]
    line = start + (away if keys_first else -away)
    return DiagonalTensor(line.reshape((1,) * (one.dim() - 1) + (-1,)), (-2, -1), queries)


def _zeros(size: Any, kwargs: dict[str, Any]) -> DiagonalTensor | None:
    """A bias of nothing, as T5 adds it across."""
    if len(size) != 4 or size[-2] * size[-1] < LEAST or not (kwargs.get("dtype") or torch.get_default_dtype()).is_floating_point:
        return None
    return DiagonalTensor(_aten.zeros.default([*size[:-2], 1, size[-2] + size[-1] - 1], **kwargs), (-2, -1), size[-2])


def _in_a_row(positions: Tensor) -> bool:
    flat = positions.flatten()
    return torch.equal(flat, torch.arange(flat.numel(), device=flat.device, dtype=flat.dtype) + flat[0])


def _by_diagonal(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What comes out where an operator can be done on diagonals; None where it cannot."""
    whole = [x for x in tree_leaves((args, kwargs)) if isinstance(x, DiagonalTensor)]
    of = whole[0]
    if any(x.made is not None for x in whole) or any((x.axes, x.queries, x.shape[x.axes[1]]) != (of.axes, of.queries, of.shape[of.axes[1]]) for x in whole):
        return None
    if (func in _KEPT and kwargs.get("device", of.device) == of.device) or func in _LIKE or torch.Tag.pointwise in func.tags:
        return _cell_by_cell(func, args, kwargs, of)
    if func is _aten.embedding.default and args[1] is of:
        line = func(args[0], of.line, *args[2:], **kwargs)
        return DiagonalTensor(line, (of.axes[0] - 1, of.axes[1] - 1), of.queries)
    return _moved(func, args, of)


def _cell_by_cell(func: Any, args: Any, kwargs: dict[str, Any], of: DiagonalTensor) -> DiagonalTensor | None:
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, Tensor) and not isinstance(x, DiagonalTensor) and any(x.dim() >= -axis and x.shape[axis] != 1 for axis in of.axes):
            return None
    lines, named = tree_map_only(DiagonalTensor, lambda x: x.line, (args, kwargs))
    line = func(*lines, **named)
    if func._schema.is_mutable:
        return args[0] if isinstance(args[0], DiagonalTensor) else None
    return DiagonalTensor(line, of.axes, of.queries)


def _moved(func: Any, args: Any, of: DiagonalTensor) -> DiagonalTensor | None:
    """Axes in another order, or one more; all of an axis."""
    n = of.dim()
    if func is _aten.slice.Tensor:
        dim, start, stop, step = (*args[1:], *(0, None, None, 1)[len(args) - 1 :])
        size = of.shape[dim]  # pyright: ignore[reportCallIssue, reportArgumentType]
        return of if (start in (None, 0) or start == -size) and (stop is None or stop >= size) and step == 1 else None
    if func is _aten.permute.default:
        order = [dim % n for dim in args[1]]
    elif func is _aten.transpose.int:
        order = list(range(n))
        one, other = args[1] % n, args[2] % n
        order[one], order[other] = order[other], order[one]
    elif func is _aten.unsqueeze.default:
        at = args[1] % (n + 1)
        row, key = (axis - (1 if axis + n < at else 0) for axis in of.axes)
        return DiagonalTensor(of.line.unsqueeze(at), (row, key), of.queries)
    else:
        return None
    row, key = (order.index(axis % n) - n for axis in of.axes)
    return DiagonalTensor(of.line.permute(order), (row, key), of.queries)
