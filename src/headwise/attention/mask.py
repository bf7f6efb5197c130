"""Who may see whom: every row sees an interval of keys, less what a mask hides.

`causal`, `window` and offsets are intervals by nature; most rules that models state as code (padding, packed texts,
prefixes, blocks) turn out to be intervals too. An interval costs two numbers a row, whatever the length.
"""

from dataclasses import dataclass

import torch

from headwise.attention.call import Call, Tiled, tile_of
from headwise.axes import Bool, Int, Interval, Mask, Tensor


@dataclass(frozen=True, eq=False)
class Visible:
    """Row i sees key j when first <= j < stop and `mask`, where there is one, says True."""

    first: Interval
    stop: Interval
    mask: Mask | Tiled | None = None

    def tile(self, rows: slice, keys: slice) -> Bool[Tensor, "#B #H t s"]:
        """True where a query of `rows` sees a key of `keys`."""
        key = torch.arange(keys.start, keys.stop, device=self.first.device)
        seen = (key >= self.first[:, :, rows, None]) & (key < self.stop[:, :, rows, None])
        return seen if self.mask is None else seen & tile_of(self.mask, rows, keys)


class LazyMask(Tiled):
    """A mask that is code: evaluated tile by tile, and turned into intervals where it proves to be made of them."""

    def intervals(self) -> "Visible | None":
        """Intervals (with the rule itself as mask where they do not say all), or None when the rule cannot tell."""
        raise NotImplementedError


def visible(call: Call, queries: int, keys: int) -> Visible:
    """The intervals of a call with so many queries and keys."""
    first, stop = band(call, queries, keys)
    if not isinstance(call.mask, LazyMask):
        return Visible(first, stop, call.mask)
    rule = call.mask.intervals()
    if rule is None:
        return Visible(first, stop, call.mask)
    return Visible(torch.maximum(first, rule.first), torch.minimum(stop, rule.stop), rule.mask)


def band(call: Call, queries: int, keys: int) -> tuple[Interval, Interval]:
    """The keys from `first` up to, not including, `stop` that causality and the window leave to each query."""
    position = positions(call, queries)[:, None]
    behind, ahead = reach(call)
    first = torch.zeros_like(position) if behind is None else position - behind
    stop = torch.full_like(position, keys) if ahead is None else position + ahead + 1
    return first.clamp(0, keys), stop.clamp(0, keys)


def reach(call: Call) -> tuple[int | None, int | None]:
    """How far a query sees behind and ahead of its own position, both ends included; None = unlimited."""
    behind, ahead = call.window if isinstance(call.window, tuple) else (None if call.window is None else call.window - 1, None)
    if call.causal:
        ahead = 0 if ahead is None else min(ahead, 0)
    return behind, ahead


def positions(call: Call, queries: int) -> Int[Tensor, "B T"]:
    """Where each query stands among the keys."""
    return call.offset[:, None] + torch.arange(queries, device=call.offset.device)
