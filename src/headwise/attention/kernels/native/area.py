"""A rectangle of the map of weights, pooled while it is made."""

from dataclasses import replace

import torch

from headwise.attention.call import Area, Call, tile_of
from headwise.attention.kernels.native.call import plain, row_blocks
from headwise.attention.kernels.native.library import instruction_set, library
from headwise.attention.mask import Visible, visible
from headwise.axes import Float, Int, Interval, Key, Query, Rows, Tensor


def pool(query: Query, key: Key, lse: Rows, call: Call, area: Area) -> Float[Tensor, "B H h w"]:
    seen = visible(call, query.shape[2], key.shape[2])
    if isinstance(seen.mask, Tensor | None) and isinstance(call.bias, Tensor | None):
        return _strip(query, key, lse, call, seen, area)
    count = area.rows.stop - area.rows.start
    strips = [
        _strip(query, key, lse, call, seen, replace(area, rows=slice(area.rows.start + some.start, area.rows.start + some.stop)))
        for some in row_blocks(query, count, area.keys.stop - area.keys.start, area.cell)
    ]
    return torch.cat(strips, 2)


def _strip(query: Query, key: Key, lse: Rows, call: Call, seen: Visible, area: Area) -> Float[Tensor, "B H h w"]:
    """Some lines of cells: rows count from the first of the strip, planes begin at the area's first key."""
    rows, keys, dtype = area.rows, area.keys, lse.dtype
    first, stop = (_of_rows(end, rows, keys) for end in (seen.first, seen.stop))
    if area.blank is not None:
        stop = stop.masked_fill(area.blank[:, None, rows], 0)
    mask = None if seen.mask is None else tile_of(seen.mask, rows, keys)
    bias = None if call.bias is None else tile_of(call.bias, rows, keys)
    pooled = torch.empty((*query.shape[:2], *area.shape), dtype=dtype)
    library().pool(
        query=plain(query[:, :, rows]),
        key=plain(key),
        lse=lse[:, :, rows].detach().contiguous(),
        first=first,
        stop=stop,
        offset=call.offset + rows.start,
        mask=mask,
        bias=None if bias is None else plain(bias).to(dtype),
        plane_start=keys.start,
        scale=call.scale,
        softcap=call.softcap or 0.0,
        pool_start=keys.start,
        pool_stop=keys.stop,
        cell=area.cell,
        mean=area.mean,
        pooled=pooled,
        threads=torch.get_num_threads(),
        isa=instruction_set(),
    )
    return pooled


def _of_rows(interval: Interval, rows: slice, keys: slice) -> Int[Tensor, "#B #H #t"]:
    part = interval[:, :, rows] if interval.shape[2] > 1 else interval
    return part.clamp(keys.start, keys.stop)
