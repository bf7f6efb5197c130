"""How attention is cut up: blocks of query rows of some heads, and within a block strips of keys.

A block never holds more than `tile_size` scores at a time. Keys that no row of a block may see are never visited, and
strips in which every row sees every key are not masked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch

from headwise.attention.call import Call, tile_of
from headwise.attention.mask import Visible, positions, visible
from headwise.attention.statistic import labels
from headwise.axes import Bool, Float, Int, Key, Query, Tensor

ROWS = 512  # query rows of one head in a block, at most


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the query heads that share some key heads; n = batch rows x key heads, r = query heads a key head.

    Attributes:
        q: scaled queries, the r heads of a group below one another, in the wide dtype.
        rows, groups, batch: which they are.
        first, stop: keys that some row may see.
        all_from, all_to: keys that every row sees, as far as intervals are concerned.
    """

    q: Float[Tensor, "n rt D"]
    k: Float[Tensor, "n S D"]
    call: Call
    seen: Visible
    position: Int[Tensor, "m rt"]
    sink: Float[Tensor, "n rt"] | None
    batch: slice
    groups: slice
    group_size: int
    rows: slice
    first: int
    stop: int
    all_from: int
    all_to: int
    width: int
    buffers: dict[str, Tensor] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        return self.q.shape[0]

    @property
    def height(self) -> int:
        return self.q.shape[1]

    @property
    def query_heads(self) -> slice:
        return slice(self.groups.start * self.group_size, self.groups.stop * self.group_size)

    def of_keys(self, x: Float[Tensor, "B G S E"]) -> Float[Tensor, "n S E"]:
        """Keys or values of this block's heads."""
        return x[self.batch, self.groups].flatten(0, 1).to(self.q.dtype)

    def of_rows(self, x: Float[Tensor, "B H T ..."]) -> Float[Tensor, "n rt ..."]:
        """What belongs to this block's rows, laid out like `q`."""
        part = x[self.batch, self.query_heads, self.rows].to(self.q.dtype)
        return part.unflatten(1, (-1, self.group_size)).flatten(2, 3).flatten(0, 1)

    def plane(self, x: Tensor) -> Tensor:
        """A [#B, #H, #t, #s] part of a mask or bias as [#b, #g, #r, #t, #s]."""
        b = x[self.batch] if x.shape[0] > 1 else x
        if x.shape[1] == 1:
            return b[:, :, None]
        return b[:, self.query_heads].unflatten(1, (-1, self.group_size))

    def split(self, scores: Float[Tensor, "n rt s"] | Bool[Tensor, "n rt s"]) -> Float[Tensor, "b g r t s"] | Bool[Tensor, "b g r t s"]:
        """The same numbers with every axis apart, to meet a mask or a bias."""
        groups = self.groups.stop - self.groups.start
        return scores.view(-1, groups, self.group_size, self.rows.stop - self.rows.start, scores.shape[-1])

    def strips(self) -> "Iterator[Strip]":
        index = 0
        for start in range(self.first, self.stop, self.width):
            keys = slice(start, min(start + self.width, self.stop))
            strip = Strip(self, keys, index)
            if not strip.empty:
                yield strip
                index += 1


@dataclass(frozen=True, eq=False)
class Strip:
    """The scores of one block against some keys."""

    block: Block
    keys: slice
    index: int

    @cached_property
    def bias(self) -> Float[Tensor, "b g r t s"] | None:
        bias = self.block.call.bias
        return None if bias is None else self.block.plane(tile_of(bias, self.block.rows, self.keys))

    @cached_property
    def unseen(self) -> Bool[Tensor, "b g r t s"] | None:
        """True where a key is hidden, by intervals, mask or a bias of -inf; None where nothing is."""
        block, hidden = self.block, []
        if not (block.all_from <= self.keys.start and self.keys.stop <= block.all_to):
            hidden.append(~block.plane(block.seen.tile(block.rows, self.keys)))
        elif block.seen.mask is not None:
            hidden.append(~block.plane(tile_of(block.seen.mask, block.rows, self.keys)))
        if self.bias is not None:
            hidden.append(self.bias == -torch.inf)
        hidden = [part for part in hidden if bool(part.any())]
        return None if not hidden else hidden[0] if len(hidden) == 1 else hidden[0] | hidden[1]

    @property
    def empty(self) -> bool:
        """No row sees any key."""
        return self.unseen is not None and bool(self.unseen.all())

    @property
    def hides(self) -> bool:
        """Some score is -inf."""
        return self.unseen is not None

    def raw(self) -> Float[Tensor, "n rt s"]:
        """scale · q·k, in a buffer that the next strip reuses."""
        return torch.bmm(self.block.q, self.block.k[:, self.keys].mT, out=self._room("scores"))

    def shape(self, scores: Float[Tensor, "n rt s"]) -> Float[Tensor, "n rt s"]:
        """Cap, bias and mask, in place."""
        block, cap = self.block, self.block.call.softcap
        if cap is not None:
            scores.div_(cap).tanh_().mul_(cap)
        if self.bias is not None:
            block.split(scores).add_(self.bias)
        if self.unseen is not None:  # after the bias: NaN - inf is NaN, and what is hidden may be NaN
            block.split(scores).masked_fill_(self.unseen, -torch.inf)
        return scores

    def scores(self) -> Float[Tensor, "n rt s"]:
        """What the softmax sees; -inf where hidden."""
        return self.shape(self.raw())

    def weights(self, lse: Float[Tensor, "n rt"]) -> Float[Tensor, "n rt s"]:
        """Exact weights, once lse is known; 0 where hidden, in dead rows too."""
        scores = self.scores()
        hidden = scores == -torch.inf if self.hides else None
        weights = scores.sub_(lse[..., None]).exp_()
        return weights if hidden is None else weights.masked_fill_(hidden, 0)

    def seen(self) -> Bool[Tensor, "n rt s"]:
        """True where a key is seen."""
        block = self.block
        seen = torch.ones(block.heads, block.height, self.keys.stop - self.keys.start, dtype=torch.bool, device=block.q.device)
        if self.unseen is not None:
            block.split(seen).masked_fill_(self.unseen, False)
        return seen

    def segments(self) -> Float[Tensor, "n s labels"] | None:
        label = self.block.call.segments
        if label is None:
            return None
        member = label[self.block.batch, self.keys, None] == torch.arange(labels(label), device=label.device)
        groups = self.block.groups.stop - self.block.groups.start
        return member.to(self.block.q.dtype).repeat_interleave(groups, 0)

    def room_for_mass(self) -> Float[Tensor, "n rt s"]:
        return self._room("mass")

    def _room(self, name: str) -> Tensor:
        block = self.block
        size = block.heads * block.height * block.width
        if name not in block.buffers or block.buffers[name].numel() < size:
            block.buffers[name] = block.q.new_empty(size)
        shape = (block.heads, block.height, self.keys.stop - self.keys.start)
        return block.buffers[name][: shape[0] * shape[1] * shape[2]].view(shape)


def tile_size(device: torch.device) -> int:
    """Scores held at a time: what a core's cache holds, or what fills a GPU."""
    return 2**18 if device.type == "cpu" else 2**26


def blocks(query: Query, key: Key, call: Call, wide: torch.dtype) -> Iterator[Block]:
    """All blocks of a call, in order."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    if not (batch and heads and queries):
        return
    seen = visible(call, queries, keys)
    position = positions(call, queries)
    group_size = heads // key.shape[1]
    height, width, groups, rows_of_batch = _cut(query, key, group_size, tile_size(query.device))
    spans = _spans(seen, height, keys)
    buffers: dict[str, Tensor] = {}
    for b in range(0, batch, rows_of_batch):
        these = slice(b, min(b + rows_of_batch, batch))
        for g in range(0, key.shape[1], groups):
            kept = slice(g, min(g + groups, key.shape[1]))
            n = (these.stop - these.start) * (kept.stop - kept.start)
            k = key[these, kept].flatten(0, 1).to(wide)
            for rows, span in zip(range(0, queries, height), spans, strict=True):
                those = slice(rows, min(rows + height, queries))
                mine = query[these, kept.start * group_size : kept.stop * group_size, those]
                q = (mine.to(wide) * call.scale).unflatten(1, (-1, group_size)).flatten(2, 3).flatten(0, 1)
                p = position[these, those].repeat_interleave(kept.stop - kept.start, 0).repeat(1, group_size)
                yield Block(q, k, call, seen, p, _sinks(call, kept, group_size, those, n, wide), these, kept, group_size, those, *span, width, buffers)


def _cut(query: Query, key: Key, group_size: int, size: int) -> tuple[int, int, int, int]:
    """Rows of a head, keys, key heads and batch rows of one tile: wide strips first, then rows, then heads."""
    queries, keys = query.shape[2], key.shape[2]
    height = min(queries, max(ROWS // group_size, 16))
    width = max(min(keys, size // (height * group_size)), 1)
    room = max(size // (height * group_size * width), 1)
    groups = min(key.shape[1], room)
    return height, width, groups, max(room // key.shape[1], 1) if groups == key.shape[1] else 1


def _spans(seen: Visible, height: int, keys: int) -> list[tuple[int, int, int, int]]:
    """For each block of rows: keys that some row may see, and keys that every row sees."""
    first, stop = seen.first, seen.stop
    some = [first.flatten(0, 1).amin(0), stop.flatten(0, 1).amax(0)]
    every = [first.flatten(0, 1).amax(0), stop.flatten(0, 1).amin(0)]
    spans = []
    for a, b, c, d in zip(*(x.split(height) for x in (*some, *every)), strict=True):
        spans.append((int(a.min()), int(b.max()), int(c.max()), int(d.min())))
    return spans


def _sinks(call: Call, groups: slice, group_size: int, rows: slice, n: int, wide: torch.dtype) -> Float[Tensor, "n rt"] | None:
    if call.sink is None:
        return None
    mine = call.sink[groups.start * group_size : groups.stop * group_size].to(wide).unflatten(0, (-1, group_size))
    tall = mine.repeat_interleave(rows.stop - rows.start, 1)
    return tall.repeat(n // len(tall), 1)
