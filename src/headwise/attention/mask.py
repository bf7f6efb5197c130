"""Which keys each query may attend to: an interval of keys, minus those that a mask hides.

`causal`, `window` and `query_offset` define intervals; most masks that models define as functions (padding, packed sequences,
prefixes, chunks) turn out to be intervals too. An interval takes two numbers for each query, whatever the length.
"""

from dataclasses import dataclass

import torch

from headwise.attention.call import Call, Tiled, tile_of
from headwise.axes import Bool, Int, Interval, Mask, Tensor


@dataclass(frozen=True, eq=False)
class VisibleKeys:
    """Key j is visible to query i when first <= j < stop and `mask`, where there is one, is True."""

    first: Interval
    stop: Interval
    mask: Mask | Tiled | None = None

    def tile(self, rows: slice, keys: slice) -> Bool[Tensor, "#B #H t s"]:
        """True where a key of `keys` is visible to a query of `rows`."""
        key = torch.arange(keys.start, keys.stop, device=self.first.device)
        visible = (key >= self.first[:, :, rows, None]) & (key < self.stop[:, :, rows, None])
        return visible if self.mask is None else visible & tile_of(self.mask, rows, keys)


class LazyMask(Tiled):
    """A mask that is a function: evaluated tile by tile, and replaced by intervals where it is equal to some."""

    def intervals(self) -> "VisibleKeys | None":
        """Its intervals, with the mask itself in addition where they are not all of it; None when it does not know them."""
        raise NotImplementedError


def visible_keys(call: Call, queries: int, keys: int) -> VisibleKeys:
    """The visible keys of a call with so many queries and keys."""
    first, stop = band(call, queries, keys)
    if not isinstance(call.mask, LazyMask):
        return VisibleKeys(first, stop, call.mask)
    masked = call.mask.intervals()
    if masked is None:
        return VisibleKeys(first, stop, call.mask)
    return VisibleKeys(torch.maximum(first, masked.first), torch.minimum(stop, masked.stop), masked.mask)


def band(call: Call, queries: int, keys: int) -> tuple[Interval, Interval]:
    """The keys from `first` up to, not including, `stop` that causality and the window leave to each query, [B, 1, T] each."""
    position = positions(call, queries)[:, None]
    behind, ahead = reach(call)
    first = torch.zeros_like(position) if behind is None else position - behind
    stop = torch.full_like(position, keys) if ahead is None else position + ahead + 1
    return first.clamp(0, keys), stop.clamp(0, keys)


def reach(call: Call) -> tuple[int | None, int | None]:
    """How many tokens behind and ahead of its position a query may attend to, the last ones included; None = unlimited."""
    behind, ahead = call.window if isinstance(call.window, tuple) else (None if call.window is None else call.window - 1, None)
    if call.causal:
        ahead = 0 if ahead is None else min(ahead, 0)
    return behind, ahead


def positions(call: Call, queries: int) -> Int[Tensor, "B T"]:
    """The position of each query among the keys."""
    return call.offset[:, None] + torch.arange(queries, device=call.offset.device)
