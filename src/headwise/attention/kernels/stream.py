"""Attention tile by tile in torch, on any device: all statistics in the same pass, and never a T × S tensor.

The scores of some heads, query rows and keys at a time are computed, accumulated into the rows' output, lse and statistics (rescaled
whenever the running maximum rises), and dropped. The R = H / G query heads that share a key head are rows of one taller matrix,
so that keys are never repeated.

References: online softmax: Milakov and Gimelshein 2018; tiles and recomputation in the backward pass: Dao et al. 2022.
"""

from types import MappingProxyType

import torch

from headwise.attention.backward import with_gradients
from headwise.attention.blocking import QueryBlock, ScoreTile, query_blocks
from headwise.attention.call import Attended, Call, Kernel, accumulation_dtype
from headwise.attention.statistic import Accumulator, RowSoftmax, SoftmaxTile, Statistic, label_count
from headwise.axes import Key, Query, Rows, Tensor, Value
from headwise.catalog import entries


def attend(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    return with_gradients(forward, query, key, value, call, statistics)


@torch.no_grad()
def forward(query: Query, key: Key, value: Value, call: Call, statistics: tuple[str, ...]) -> Attended:
    b, h, t, _ = query.shape
    output = query.new_zeros(b, h, t, value.shape[3])
    lse = query.new_full((b, h, t), -torch.inf, dtype=accumulation_dtype(query.dtype))
    known = entries("headwise.attention.statistics")
    in_pass = [name for name in statistics if known[name].accumulator is not None]
    found = {name: _empty(known[name], lse, call) for name in in_pass}

    for block in query_blocks(query, key, call, lse.dtype):
        accumulators = {name: known[name].accumulator() for name in in_pass}
        z, rows = _attend_block(block, value, accumulators)
        _store(output, block, z)
        _store(lse, block, rows.lse)
        empty = rows.max_score == -torch.inf
        for name, accumulator in accumulators.items():
            number = accumulator.finish(rows) if accumulator.started else _nothing_accumulated(found[name], rows)
            if known[name].if_empty is not None:
                number[empty] = known[name].if_empty
            _store(found[name], block, number)
    if "received" in statistics:
        found["received"] = _received(query, key, lse, call)
    return Attended(output, lse, MappingProxyType({name: found[name] for name in statistics}))


def _attend_block(block: QueryBlock, value: Value, accumulators: dict[str, Accumulator]) -> tuple[Tensor, RowSoftmax]:
    """The online softmax: accumulate all keys that are visible to the rows of a block."""
    n, t = block.heads, block.height
    highest = block.q.new_full((n, t), -torch.inf)
    total = block.q.new_zeros(n, t)
    z = block.q.new_zeros(n, t, value.shape[3])
    not_finite = _NonFiniteValues(block, value)
    v = not_finite.replaced

    for tile in block.tiles():
        scores = tile.scores()
        tile_max = scores.amax(-1)
        before, highest = highest, torch.maximum(highest, tile_max)
        level = highest.masked_fill(highest == -torch.inf, 0)
        shift = before - level
        shifted = scores.sub_(level[..., None])
        exp_scores = tile.exp_buffer().copy_(shifted).exp_() if accumulators else shifted.exp_()
        if tile.hidden is not None and accumulators:
            shifted.masked_fill_(shifted == -torch.inf, 0)
        part = exp_scores.sum(-1)
        factor = shift.exp()
        if tile.index:
            total.mul_(factor)
            z.mul_(factor[..., None])
            for accumulator in accumulators.values():
                accumulator.rescale(factor, shift)
        total.add_(part)
        z.baddbmm_(exp_scores, v[:, tile.keys])
        not_finite.add(tile)
        if accumulators:
            softmax_tile = SoftmaxTile(exp_scores, shifted, part, tile_max > before, tile.keys, block.position, tile.segments())
            for accumulator in accumulators.values():
                accumulator.add(softmax_tile)
    return _normalise(block, highest, total, z, not_finite)


def _normalise(block: QueryBlock, highest: Tensor, total: Tensor, z: Tensor, not_finite: "_NonFiniteValues") -> tuple[Tensor, RowSoftmax]:
    """Divide by the row sums, not multiply by e^-lse: next to a large maximum, lse has no digits left for the logarithm of the sum."""
    top = highest if block.sink is None else torch.maximum(highest, block.sink)
    top = top.masked_fill(top == -torch.inf, 0)
    factor = (highest - top).exp()
    row_sum = total * factor if block.sink is None else total * factor + (block.sink - top).exp()
    lse = (row_sum.log() + top).masked_fill(highest == torch.inf, torch.inf)
    empty = highest == -torch.inf
    norm = (factor / row_sum).masked_fill(empty, 0)
    return not_finite.put_back(z.mul_(norm[..., None])), RowSoftmax(highest, lse, norm, block.sink)


class _NonFiniteValues:
    """NaN and infinity in values: replaced by 0 in the products, where 0 · inf would leak them, and put back where visible."""

    def __init__(self, block: QueryBlock, value: Value) -> None:
        v = block.keys_of(value)
        self.replaced = v
        self.hits: dict[float, Tensor] = {}
        self.places: dict[float, Tensor] = {}
        if not v.isfinite().all():
            self.replaced = v.nan_to_num(0, 0, 0)
            self.places = {number: (v.isnan() if number != number else v == number).to(v.dtype) for number in (torch.nan, torch.inf, -torch.inf)}

    def add(self, tile: ScoreTile) -> None:
        """Count the visible ones of a tile."""
        for number, places in self.places.items():
            hits = tile.visible().to(places.dtype) @ places[:, tile.keys]
            self.hits[number] = self.hits[number] + hits if number in self.hits else hits

    def put_back(self, z: Tensor) -> Tensor:
        for number, hits in self.hits.items():
            z = z.add_(torch.where(hits > 0, number, 0.0))
        return z


def _store(whole: Tensor, block: QueryBlock, part: Tensor) -> None:
    """Write the rows [n, R·t, ...] of a block to their place in a [B, H, T, ...] tensor."""
    place = whole[block.batch, block.query_heads, block.rows]
    place.copy_(part.reshape(place.shape))


def _empty(statistic: Statistic, lse: Rows, call: Call) -> Tensor:
    extra = (label_count(call.segments),) if statistic.needs_segments else ()  # pyright: ignore[reportArgumentType]
    return torch.zeros(*lse.shape, *extra, dtype=statistic.dtype or lse.dtype, device=lse.device)


def _nothing_accumulated(found: Tensor, rows: RowSoftmax) -> Tensor:
    """The statistic of rows to which no tile contributed: 0, or NaN in a row of NaN."""
    number = found.new_zeros(*rows.norm.shape, *found.shape[3:])
    if number.is_floating_point():
        number[rows.norm.isnan()] = torch.nan
    return number


def _received(query: Query, key: Key, lse: Rows, call: Call) -> Tensor:
    """The column sums, in a second pass: the weights of a row are known only once its lse is."""
    received = lse.new_zeros(*query.shape[:2], key.shape[2])
    for block in query_blocks(query, key, call, lse.dtype):
        block_lse = block.rows_of(lse)
        place = received[block.batch, block.query_heads]
        for tile in block.tiles():
            weights = tile.weights(block_lse)
            by_head = weights.reshape(*place.shape[:2], -1, weights.shape[-1])
            place[..., tile.keys] += by_head.sum(-2)
    return received


ENTRY = Kernel(attend=attend, refusal=lambda *call: None, preference=1)
