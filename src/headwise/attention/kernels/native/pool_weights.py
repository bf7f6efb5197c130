"""The weights of a rectangle, pooled as they are computed."""

from dataclasses import replace

import torch

from headwise.attention.call import Call, MapRegion, tile_of
from headwise.attention.kernels.native.attend_call import plain, row_blocks
from headwise.attention.kernels.native.library import instruction_set, library
from headwise.attention.mask import VisibleKeys, visible_keys
from headwise.axes import Float, Int, Interval, Key, Query, Rows, Tensor


def pool(query: Query, key: Key, lse: Rows, call: Call, region: MapRegion) -> Float[Tensor, "B H h w"]:
    visible = visible_keys(call, query.shape[2], key.shape[2])
    if isinstance(visible.mask, Tensor | None) and isinstance(call.bias, Tensor | None):
        return _pool_rows(query, key, lse, call, visible, region)
    count = region.rows.stop - region.rows.start
    parts = [
        _pool_rows(query, key, lse, call, visible, replace(region, rows=slice(region.rows.start + block.start, region.rows.start + block.stop)))
        for block in row_blocks(query, count, region.keys.stop - region.keys.start, region.cell)
    ]
    return torch.cat(parts, 2)


def _pool_rows(query: Query, key: Key, lse: Rows, call: Call, visible: VisibleKeys, region: MapRegion) -> Float[Tensor, "B H h w"]:
    """Some rows of cells. Positions count from the first of these rows, mask and bias begin at the region's first key."""
    rows, keys, dtype = region.rows, region.keys, lse.dtype
    first, stop = (_of_rows(end, rows, keys) for end in (visible.first, visible.stop))
    if region.padding is not None:
        stop = stop.masked_fill(region.padding[:, None, rows], 0)
    mask = None if visible.mask is None else tile_of(visible.mask, rows, keys)
    bias = None if call.bias is None else tile_of(call.bias, rows, keys)
    pooled = torch.empty((*query.shape[:2], *region.shape), dtype=dtype)
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
        cell=region.cell,
        mean=region.mean,
        pooled=pooled,
        threads=torch.get_num_threads(),
        isa=instruction_set(),
    )
    return pooled


def _of_rows(interval: Interval, rows: slice, keys: slice) -> Int[Tensor, "#B #H #t"]:
    part = interval[:, :, rows] if interval.shape[2] > 1 else interval
    return part.clamp(keys.start, keys.stop)
