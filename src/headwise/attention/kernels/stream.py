"""Attention tile by tile in torch, on any device: every statistic in the same pass, no T x S tensor ever.

Some heads, some query rows and some keys at a time: their scores are made, folded into what the rows have gathered so far
(a running maximum keeps exponentials in range), and dropped. The R = H / G query heads that share a key head are one
taller matrix of rows, so that keys are never repeated.

References: online softmax: Milakov and Gimelshein 2018; tiles and recomputation in the backward: Dao et al. 2022.
"""

from types import MappingProxyType

import torch

from headwise.attention.backward import with_gradients
from headwise.attention.blocking import Block, Strip, blocks
from headwise.attention.call import Attended, Call, Kernel, accumulation_dtype
from headwise.attention.statistic import End, Running, Statistic, Tile, labels
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
    in_pass = [name for name in statistics if known[name].running is not None]
    found = {name: _room(known[name], lse, call) for name in in_pass}

    for block in blocks(query, key, call, lse.dtype):
        gathered = {name: known[name].running() for name in in_pass}
        said, end = _fold(block, value, gathered)
        _put(output, block, said)
        _put(lse, block, end.lse)
        dead = end.highest == -torch.inf
        for name, running in gathered.items():
            number = running.finish(end) if running.started else _none_gathered(found[name], end)
            if known[name].dead is not None:
                number[dead] = known[name].dead
            _put(found[name], block, number)
    if "received" in statistics:
        found["received"] = _received(query, key, lse, call)
    return Attended(output, lse, MappingProxyType({name: found[name] for name in statistics}))


def _fold(block: Block, value: Value, gathered: dict[str, Running]) -> tuple[Tensor, End]:
    """Fold all keys that the rows of a block may see into their output, lse and statistics."""
    n, t = block.heads, block.height
    highest = block.q.new_full((n, t), -torch.inf)
    total = block.q.new_zeros(n, t)
    said = block.q.new_zeros(n, t, value.shape[3])
    poison = _Poison(block, value)
    v = poison.clean

    for strip in block.strips():
        scores = strip.scores()
        rise = scores.amax(-1)
        before, highest = highest, torch.maximum(highest, rise)
        level = highest.masked_fill(highest == -torch.inf, 0)
        shift = before - level
        logs = scores.sub_(level[..., None])
        mass = strip.room_for_mass().copy_(logs).exp_() if gathered else logs.exp_()
        if strip.hides and gathered:
            logs.masked_fill_(logs == -torch.inf, 0)
        part = mass.sum(-1)
        factor = shift.exp()
        if strip.index:
            total.mul_(factor)
            said.mul_(factor[..., None])
            for running in gathered.values():
                running.rescale(factor, shift)
        total.add_(part)
        said.baddbmm_(mass, v[:, strip.keys])
        poison.see(strip)
        if gathered:
            tile = Tile(mass, logs, part, rise > before, strip.keys, block.position, strip.segments())
            for running in gathered.values():
                running.add(tile)
    return _finish(block, highest, total, said, poison)


def _finish(block: Block, highest: Tensor, total: Tensor, said: Tensor, poison: "_Poison") -> tuple[Tensor, End]:
    """Weights are shares of `whole`, not e^(score - lse): beside a large score, lse has no room for the logarithm."""
    top = highest if block.sink is None else torch.maximum(highest, block.sink)
    top = top.masked_fill(top == -torch.inf, 0)
    share = (highest - top).exp()
    whole = total * share if block.sink is None else total * share + (block.sink - top).exp()
    lse = (whole.log() + top).masked_fill(highest == torch.inf, torch.inf)
    dead = highest == -torch.inf
    norm = (share / whole).masked_fill(dead, 0)
    return poison.spread(said.mul_(norm[..., None])), End(highest, lse, norm, block.sink)


class _Poison:
    """Values that are not finite: kept out of the products, where 0 · inf would leak them, and put back where seen."""

    def __init__(self, block: Block, value: Value) -> None:
        v = block.of_keys(value)
        self.block = block
        self.clean = v
        self.found: dict[float, Tensor] = {}
        self.marks: dict[float, Tensor] = {}
        if not v.isfinite().all():
            self.clean = v.nan_to_num(0, 0, 0)
            self.marks = {mark: (v.isnan() if mark != mark else v == mark).to(v.dtype) for mark in (torch.nan, torch.inf, -torch.inf)}

    def see(self, strip: Strip) -> None:
        for mark, there in self.marks.items():
            hits = strip.seen().to(there.dtype) @ there[:, strip.keys]
            self.found[mark] = self.found[mark] + hits if mark in self.found else hits

    def spread(self, said: Tensor) -> Tensor:
        for mark, hits in self.found.items():
            said = said.add_(torch.where(hits > 0, mark, 0.0))
        return said


def _put(whole: Tensor, block: Block, part: Tensor) -> None:
    """Write [n, R·t, ...] rows of a block to their place in a [B, H, T, ...] tensor."""
    place = whole[block.batch, block.query_heads, block.rows]
    place.copy_(part.reshape(place.shape))


def _room(statistic: Statistic, lse: Rows, call: Call) -> Tensor:
    extra = (labels(call.segments),) if statistic.needs_segments else ()  # pyright: ignore[reportArgumentType]
    return torch.zeros(*lse.shape, *extra, dtype=statistic.dtype or lse.dtype, device=lse.device)


def _none_gathered(room: Tensor, end: End) -> Tensor:
    """No tile held what this statistic looks for: 0, or NaN in a row of NaN."""
    number = room.new_zeros(*end.norm.shape, *room.shape[3:])
    if number.is_floating_point():
        number[end.norm.isnan()] = torch.nan
    return number


def _received(query: Query, key: Key, lse: Rows, call: Call) -> Tensor:
    """Column sums, in a second pass: only when lse is known can a row's weights be added to its keys."""
    received = lse.new_zeros(*query.shape[:2], key.shape[2])
    for block in blocks(query, key, call, lse.dtype):
        ends = block.of_rows(lse)
        place = received[block.batch, block.query_heads]
        for strip in block.strips():
            weights = strip.weights(ends)
            by_head = weights.reshape(*place.shape[:2], -1, weights.shape[-1])
            place[..., strip.keys] += by_head.sum(-2)
    return received


ENTRY = Kernel(attend=attend, refusal=lambda *call: None, preference=1)
