"""One attention call, written down: everything but query, key and value; and what comes back."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import torch

from headwise.axes import Bias, Bool, Int, Key, Mask, Output, Query, Rows, Sink, Tensor, Value


@runtime_checkable
class Tiled(Protocol):
    """A [#B, #H, T, S] plane that is never held whole: a mask or a bias that is evaluated tile by tile."""

    def tile(self, rows: slice, keys: slice) -> Tensor:
        """The [#B, #H, t, s] part of the plane under these query rows and keys."""
        ...


@dataclass(frozen=True, eq=False)
class Call:
    """How one attention is to be computed. Query i of batch row b stands at position p = offset[b] + i.

    scores = softcap(scale · q·k) + bias, hidden where `causal`, `window` or `mask` hide; then softmax with the sink.
    Each kernel reads these fields by itself, so that the reference judges the others' reading of them too.
    """

    scale: float
    offset: Int[Tensor, " B"]
    causal: bool = False  # sees j when j <= p
    window: int | tuple[int | None, int | None] | None = None  # w: j > p - w; (left, right): p - left <= j <= p + right
    mask: Mask | Tiled | None = None  # True = may be seen
    bias: Bias | Tiled | None = None  # added after the cap; -inf hides
    softcap: float | None = None  # c: s becomes c * tanh(s / c)
    sink: Sink | None = None  # logit of an extra key of value zero; neither scaled nor capped
    segments: Int[Tensor, "B S"] | None = None  # label of each key for the statistic `segment`; negative = no span


@dataclass(frozen=True, eq=False)
class Attended:
    """What an attention gives back.

    Attributes:
        output: what each head says, in the dtype of the query.
        lse: log of the sum of exponentials of a row's scores, the sink included; nats.
        statistics: by name, [B, H, T] each unless its definition says otherwise.
    """

    output: Output
    lse: Rows
    statistics: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class Area:
    """A rectangle of the map of weights, and how finely it is to be seen.

    Attributes:
        cell: rows, and keys, that are pooled into one number, counted from the rectangle's corner; fewer at its far edges.
        mean: of a cell; else its largest weight.
        blank: queries whose weights count as 0: padding.
    """

    rows: slice
    keys: slice
    cell: int = 1
    mean: bool = False
    blank: Bool[Tensor, "B T"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Lines and columns of cells."""
        return -(-(self.rows.stop - self.rows.start) // self.cell), -(-(self.keys.stop - self.keys.start) // self.cell)


@dataclass(frozen=True)
class Kernel:
    """One implementation of the call.

    Attributes:
        attend: computes it; may assume that the arguments were validated and that `refusal` said None.
        refusal: why this kernel cannot honour a call here, or None.
        preference: the largest that does not refuse is the default.
        pool: makes the weights of a rectangle, pooled; see `headwise.attention.weights`. None where it can't.
    """

    attend: Callable[[Query, Key, Value, Call, tuple[str, ...]], Attended]
    refusal: Callable[[Query, Key, Value, Call, tuple[str, ...]], str | None]
    preference: int
    pool: Callable[[Query, Key, Rows, Call, Area], Tensor] | None = None


def tile_of(plane: Tensor | Tiled, rows: slice, keys: slice) -> Tensor:
    """Rows and keys of a mask or bias; axes of length 1 stay as they are, to broadcast."""
    if not isinstance(plane, Tensor):
        return plane.tile(rows, keys)
    _, _, t, s = plane.shape
    return plane[:, :, rows if t > 1 else slice(None), keys if s > 1 else slice(None)]


def no_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Within it autocast, where the caller has it on, rounds nothing of what is computed here."""
    return torch.autocast(x.device.type, enabled=False) if torch.amp.is_autocast_available(x.device.type) else nullcontext()


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of scores, weights, lse and statistics where queries are of this one: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
