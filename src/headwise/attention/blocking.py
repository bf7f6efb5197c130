"""How attention is tiled: blocks of query rows of some heads, and for each block tiles of keys.

A tile never has more than `tile_size` scores. Keys that are visible to no row of a block are never read, and tiles whose keys are
visible to every row are not masked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch

from headwise.attention.call import Call, tile_of
from headwise.attention.mask import VisibleKeys, positions, visible_keys
from headwise.attention.statistic import label_count
from headwise.axes import Bool, Float, Int, Key, Query, Tensor

MAX_ROWS = 512  # query rows of one head in a block


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """Some rows of the query heads that share some key heads; n = batch rows × key heads, r = query heads of each key head.

    Attributes:
        q: queries times scale, the r heads of a group below one another, in the dtype of the scores.
        k: keys of the block's heads.
        position: of each row; m = 1 or n.
        batch, groups, rows: the batch rows, key heads and query rows of the block.
        first, stop: keys outside of these are visible to no row.
        all_from, all_to: keys within these are visible to every row, unless a mask or bias hides them.
        width: keys of a tile.
        buffers: memory that tiles reuse.
    """

    q: Float[Tensor, "n rt D"]
    k: Float[Tensor, "n S D"]
    call: Call
    visible: VisibleKeys
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

    def keys_of(self, x: Float[Tensor, "B G S E"]) -> Float[Tensor, "n S E"]:
        """The part of some keys or values that belongs to this block's heads."""
        return x[self.batch, self.groups].flatten(0, 1).to(self.q.dtype)

    def rows_of(self, x: Float[Tensor, "B H T ..."]) -> Float[Tensor, "n rt ..."]:
        """The part of x that belongs to this block's rows, in the layout of `q`."""
        part = x[self.batch, self.query_heads, self.rows].to(self.q.dtype)
        return part.unflatten(1, (-1, self.group_size)).flatten(2, 3).flatten(0, 1)

    def plane(self, x: Tensor) -> Tensor:
        """A [#B, #H, #t, #s] part of a mask or bias as [#b, #g, #r, #t, #s]."""
        b = x[self.batch] if x.shape[0] > 1 else x
        if x.shape[1] == 1:
            return b[:, :, None]
        return b[:, self.query_heads].unflatten(1, (-1, self.group_size))

    def split(self, scores: Float[Tensor, "n rt s"] | Bool[Tensor, "n rt s"]) -> Float[Tensor, "b g r t s"] | Bool[Tensor, "b g r t s"]:
        """A view with all axes separate, to which a mask or bias broadcasts."""
        groups = self.groups.stop - self.groups.start
        return scores.view(-1, groups, self.group_size, self.rows.stop - self.rows.start, scores.shape[-1])

    def tiles(self) -> "Iterator[ScoreTile]":
        """The tiles of the block in which some key is visible, in the order of the keys."""
        index = 0
        for start in range(self.first, self.stop, self.width):
            keys = slice(start, min(start + self.width, self.stop))
            tile = ScoreTile(self, keys, index)
            if not tile.empty:
                yield tile
                index += 1


@dataclass(frozen=True, eq=False)
class ScoreTile:
    """The scores of one block of queries with some keys.

    Attributes:
        index: of this tile among those of its block that are not empty.
    """

    block: QueryBlock
    keys: slice
    index: int

    @cached_property
    def bias(self) -> Float[Tensor, "b g r t s"] | None:
        bias = self.block.call.bias
        return None if bias is None else self.block.plane(tile_of(bias, self.block.rows, self.keys))

    @cached_property
    def hidden(self) -> Bool[Tensor, "b g r t s"] | None:
        """True where a key is hidden, by intervals, mask or a bias of -inf; None where none is."""
        block, hidden = self.block, []
        if not (block.all_from <= self.keys.start and self.keys.stop <= block.all_to):
            hidden.append(~block.plane(block.visible.tile(block.rows, self.keys)))
        elif block.visible.mask is not None:
            hidden.append(~block.plane(tile_of(block.visible.mask, block.rows, self.keys)))
        if self.bias is not None:
            hidden.append(self.bias == -torch.inf)
        hidden = [part for part in hidden if bool(part.any())]
        return None if not hidden else hidden[0] if len(hidden) == 1 else hidden[0] | hidden[1]

    @property
    def empty(self) -> bool:
        """Whether no key of the tile is visible to any row."""
        return self.hidden is not None and bool(self.hidden.all())

    def raw_scores(self) -> Float[Tensor, "n rt s"]:
        """scale · q·k, in a buffer that the next tile reuses."""
        return torch.bmm(self.block.q, self.block.k[:, self.keys].mT, out=self._buffer("scores"))

    def cap_and_bias(self, scores: Float[Tensor, "n rt s"]) -> Float[Tensor, "n rt s"]:
        """Cap, bias and mask raw scores, in place."""
        block, cap = self.block, self.block.call.softcap
        if cap is not None:
            scores.div_(cap).tanh_().mul_(cap)
        if self.bias is not None:
            block.split(scores).add_(self.bias)
        if self.hidden is not None:  # after the bias: NaN - inf is NaN, and what is hidden may be NaN
            block.split(scores).masked_fill_(self.hidden, -torch.inf)
        return scores

    def scores(self) -> Float[Tensor, "n rt s"]:
        """The scores as the softmax takes them; -inf where hidden."""
        return self.cap_and_bias(self.raw_scores())

    def weights(self, lse: Float[Tensor, "n rt"]) -> Float[Tensor, "n rt s"]:
        """The exact weights, given lse; 0 where hidden, also in rows with no visible key."""
        scores = self.scores()
        hidden = scores == -torch.inf if self.hidden is not None else None
        weights = scores.sub_(lse[..., None]).exp_()
        return weights if hidden is None else weights.masked_fill_(hidden, 0)

    def visible(self) -> Bool[Tensor, "n rt s"]:
        """True where a key is visible."""
        block = self.block
        visible = torch.ones(block.heads, block.height, self.keys.stop - self.keys.start, dtype=torch.bool, device=block.q.device)
        if self.hidden is not None:
            block.split(visible).masked_fill_(self.hidden, False)
        return visible

    def segments(self) -> Float[Tensor, "n s labels"] | None:
        """A column for each label, 1 where a key has it."""
        label = self.block.call.segments
        if label is None:
            return None
        member = label[self.block.batch, self.keys, None] == torch.arange(label_count(label), device=label.device)
        groups = self.block.groups.stop - self.block.groups.start
        return member.to(self.block.q.dtype).repeat_interleave(groups, 0)

    def exp_buffer(self) -> Float[Tensor, "n rt s"]:
        """Uninitialised memory of the shape of the scores, which the next tile reuses."""
        return self._buffer("exp_scores")

    def _buffer(self, name: str) -> Tensor:
        block = self.block
        size = block.heads * block.height * block.width
        if name not in block.buffers or block.buffers[name].numel() < size:
            block.buffers[name] = block.q.new_empty(size)
        shape = (block.heads, block.height, self.keys.stop - self.keys.start)
        return block.buffers[name][: shape[0] * shape[1] * shape[2]].view(shape)


def tile_size(device: torch.device) -> int:
    """The number of scores in a tile: what fits the cache of a CPU core, or occupies a GPU."""
    return 2**18 if device.type == "cpu" else 2**26


def query_blocks(query: Query, key: Key, call: Call, dtype: torch.dtype) -> Iterator[QueryBlock]:
    """All blocks of a call, in order, with queries and keys in the given dtype."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    if not (batch and heads and queries):
        return
    visible = visible_keys(call, queries, keys)
    position = positions(call, queries)
    group_size = heads // key.shape[1]
    height, width, groups, batch_rows = _block_sizes(query, key, group_size, tile_size(query.device))
    spans = _key_spans(visible, height)
    buffers: dict[str, Tensor] = {}
    for b in range(0, batch, batch_rows):
        batch_slice = slice(b, min(b + batch_rows, batch))
        for g in range(0, key.shape[1], groups):
            group_slice = slice(g, min(g + groups, key.shape[1]))
            group_count = group_slice.stop - group_slice.start
            n = (batch_slice.stop - batch_slice.start) * group_count
            k = key[batch_slice, group_slice].flatten(0, 1).to(dtype)
            for start, span in zip(range(0, queries, height), spans, strict=True):
                rows = slice(start, min(start + height, queries))
                part = query[batch_slice, group_slice.start * group_size : group_slice.stop * group_size, rows]
                q = (part.to(dtype) * call.scale).unflatten(1, (-1, group_size)).flatten(2, 3).flatten(0, 1)
                p = position[batch_slice, rows].repeat_interleave(group_count, 0).repeat(1, group_size)
                sink = _sink_rows(call, group_slice, group_size, rows, n, dtype)
                yield QueryBlock(q, k, call, visible, p, sink, batch_slice, group_slice, group_size, rows, *span, width, buffers)


def _block_sizes(query: Query, key: Key, group_size: int, size: int) -> tuple[int, int, int, int]:
    """Rows of a head, keys, key heads and batch rows of a tile: as many keys as possible first, then key heads, then batch rows."""
    queries, keys = query.shape[2], key.shape[2]
    height = min(queries, max(MAX_ROWS // group_size, 16))
    width = max(min(keys, size // (height * group_size)), 1)
    count = max(size // (height * group_size * width), 1)
    groups = min(key.shape[1], count)
    return height, width, groups, max(count // key.shape[1], 1) if groups == key.shape[1] else 1


def _key_spans(visible: VisibleKeys, height: int) -> list[tuple[int, int, int, int]]:
    """For each block of rows: the keys visible to some row, and the keys visible to every row, as start and stop each."""
    first, stop = visible.first, visible.stop
    some = [first.flatten(0, 1).amin(0), stop.flatten(0, 1).amax(0)]
    every = [first.flatten(0, 1).amax(0), stop.flatten(0, 1).amin(0)]
    spans = []
    for a, b, c, d in zip(*(x.split(height) for x in (*some, *every)), strict=True):
        spans.append((int(a.min()), int(b.max()), int(c.max()), int(d.min())))
    return spans


def _sink_rows(call: Call, groups: slice, group_size: int, rows: slice, n: int, dtype: torch.dtype) -> Float[Tensor, "n rt"] | None:
    """The sink's logit of each row of a block."""
    if call.sink is None:
        return None
    logits = call.sink[groups.start * group_size : groups.stop * group_size].to(dtype).unflatten(0, (-1, group_size))
    by_row = logits.repeat_interleave(rows.stop - rows.start, 1)
    return by_row.repeat(n // len(by_row), 1)
