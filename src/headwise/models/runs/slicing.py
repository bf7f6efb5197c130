"""One head of one batch row of a call, so that a map of millions of weights can be made head by head."""

from dataclasses import replace

from headwise.attention.call import Call, Tiled, tile_of
from headwise.attention.mask import LazyMask, VisibleKeys
from headwise.axes import Key, Query, Rows, Tensor
from headwise.models.runs.activation_store import StoredCall


def one_head(kept: StoredCall, batch: int, head: int) -> tuple[Query, Key, Rows, Call]:
    """Query, key, lse and call of this head alone: B = H = G = 1."""
    group = head // (kept.query.shape[1] // kept.key.shape[1])
    b, h, g = slice(batch, batch + 1), slice(head, head + 1), slice(group, group + 1)
    call = replace(
        kept.call,
        offset=kept.call.offset[b],
        mask=_plane(kept.call.mask, batch, head),
        bias=_plane(kept.call.bias, batch, head),
        sink=None if kept.call.sink is None else kept.call.sink[h],
        segments=None,
    )
    return kept.query[b, h], kept.key[b, g], kept.lse[b, h], call


def one_row(call: Call, row: int, keys: int) -> Call:
    """The call of one query alone: T = 1."""
    rows, every = slice(row, row + 1), slice(0, keys)
    mask = None if call.mask is None else tile_of(call.mask, rows, every)
    bias = None if call.bias is None else tile_of(call.bias, rows, every)
    return replace(call, offset=call.offset + row, mask=mask, bias=bias)


def _plane(plane: Tensor | Tiled | None, batch: int, head: int) -> Tensor | Tiled | None:
    if plane is None:
        return None
    if isinstance(plane, Tensor):
        return _cut(plane, batch, head)
    return _OneHead(plane, batch, head)


def _cut(plane: Tensor, batch: int, head: int) -> Tensor:
    b = slice(batch, batch + 1) if plane.shape[0] > 1 else slice(None)
    h = slice(head, head + 1) if plane.shape[1] > 1 else slice(None)
    return plane[b, h]


class _OneHead(LazyMask):
    """A mask or bias that is code, for one head of one batch row."""

    def __init__(self, of: Tiled, batch: int, head: int) -> None:
        self.of, self.batch, self.head = of, batch, head

    def tile(self, rows: slice, keys: slice) -> Tensor:
        return _cut(self.of.tile(rows, keys), self.batch, self.head)

    def intervals(self) -> VisibleKeys | None:
        seen = self.of.intervals() if isinstance(self.of, LazyMask) else None
        if seen is None:
            return None
        mask = None if seen.mask is None else _plane(seen.mask, self.batch, self.head)
        return VisibleKeys(_cut(seen.first, self.batch, self.head), _cut(seen.stop, self.batch, self.head), mask)
