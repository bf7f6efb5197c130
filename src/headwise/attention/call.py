"""An attention call as a value: all of its arguments but query, key and value; what it returns; and what computes it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import torch

from headwise.axes import Bias, Bool, Int, Key, Mask, Output, Query, Rows, Sink, Tensor, Value


@runtime_checkable
class Tiled(Protocol):
    """A mask or bias [#B, #H, T, S] that is never held whole, but evaluated tile by tile."""

    def tile(self, rows: slice, keys: slice) -> Tensor:
        """The part of it for these query rows and keys, [#B, #H, t, s]."""
        ...


@dataclass(frozen=True, eq=False)
class Call:
    """How one attention is to be computed. Query i of batch row b is at position p = offset[b] + i.

    scores = softcap(scale · q·k) + bias, -inf where `causal`, `window` or `mask` hides a key; then softmax with the sink.
    Every kernel interprets these fields by itself, so that the reference kernel also tests how the others interpret them.
    """

    scale: float
    offset: Int[Tensor, " B"]
    causal: bool = False  # key j is visible when j <= p
    window: int | tuple[int | None, int | None] | None = None  # w: j > p - w; (left, right): p - left <= j <= p + right
    mask: Mask | Tiled | None = None  # True = visible
    bias: Bias | Tiled | None = None  # added after the cap; -inf hides
    softcap: float | None = None  # c: s becomes c * tanh(s / c)
    sink: Sink | None = None  # logit of an extra key of value zero; neither scaled nor capped
    segments: Int[Tensor, "B S"] | None = None  # label of each key for the statistic `segment`; negative = no span


@dataclass(frozen=True, eq=False)
class Attended:
    """The result of an attention call.

    Attributes:
        output: z of each head, in the dtype of the query.
        lse: log-sum-exp of each row of scores, including the sink; nats.
        statistics: by name, [B, H, T] each unless documented otherwise.
    """

    output: Output
    lse: Rows
    statistics: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class MapRegion:
    """A rectangle of the T × S map of weights, and the resolution at which it is computed.

    Attributes:
        cell: each number pools a cell of so many rows and keys, counted from the rectangle's corner; fewer at its far edges.
        mean: pool by the mean of a cell; else by its largest weight.
        padding: True for queries that are padding; their weights count as 0.
    """

    rows: slice
    keys: slice
    cell: int = 1
    mean: bool = False
    padding: Bool[Tensor, "B T"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return -(-(self.rows.stop - self.rows.start) // self.cell), -(-(self.keys.stop - self.keys.start) // self.cell)


@dataclass(frozen=True)
class Kernel:
    """One implementation of attention.

    Attributes:
        attend: computes a call; may assume that its arguments are valid and that `refusal` returned None.
        refusal: why this kernel cannot compute a call on this machine, or None.
        preference: of the kernels that do not refuse, the one with the largest is the default.
        pool: computes the weights of a rectangle, pooled; see `headwise.attention.weights`. None where it cannot.
    """

    attend: Callable[[Query, Key, Value, Call, tuple[str, ...]], Attended]
    refusal: Callable[[Query, Key, Value, Call, tuple[str, ...]], str | None]
    preference: int
    pool: Callable[[Query, Key, Rows, Call, MapRegion], Tensor] | None = None


def tile_of(plane: Tensor | Tiled, rows: slice, keys: slice) -> Tensor:
    """The part of a mask or bias for these rows and keys; axes of length 1 stay, to be broadcast."""
    if not isinstance(plane, Tensor):
        return plane.tile(rows, keys)
    _, _, t, s = plane.shape
    return plane[:, :, rows if t > 1 else slice(None), keys if s > 1 else slice(None)]


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which the caller's autocast is off, so that nothing computed here is rounded by it."""
    return torch.autocast(x.device.type, enabled=False) if torch.amp.is_autocast_available(x.device.type) else nullcontext()


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of scores, weights, lse and statistics for queries of this dtype: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
