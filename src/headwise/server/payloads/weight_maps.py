"""Attention maps as the page draws them: exact weights, pooled tiles, block mass of all heads. Masked cells are distinct from cells of weight zero."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.attention.call import Call, MapRegion, tile_of
from headwise.attention.mask import VisibleKeys, visible_keys
from headwise.attention.weights import pooled_weights
from headwise.axes import Bool, Float, Int, Tensor
from headwise.models.runs.map_tiles import levels, tile_area
from headwise.server.payloads.tensor_payload import to_safetensors

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

MASKED = -1.0
MAX_PAIRS = 1 << 20  # pairs of query and key for which a mask that is not an interval is evaluated pair by pair
CODE_STEPS = 253  # of the 8-bit code, which begins at 1


def rectangle(run: "Run", place: "Place", head: int, rows: slice, keys: slice) -> Float[Tensor, "t s"]:
    """The exact weights of some rows and keys; -1 where masked."""
    found = run.weights(place.layer, head, rows, keys, part=place.part)
    return found.masked_fill(~visible_cells(run, place, head, MapRegion(rows, keys)), MASKED)


def tile(run: "Run", place: "Place", head: int, position: tuple[int, int, int], pool: str) -> Float[Tensor, "h w"]:
    """One tile; -1 where every pair of a pixel is masked.

    Args:
        position: level, column, row.
    """
    level, column, row = position
    found = run.tile(place.layer, head, level, column, row, pool, part=place.part)
    return found.masked_fill(~visible_cells(run, place, head, tile_area(place.queries, place.keys, level, column, row, pool)), MASKED)


def block_masses(run: "Run", place: "Place", size: int) -> Float[Tensor, "H h w"]:
    """Block mass of every head of a layer: the weight that a query gives to a block of keys, averaged over a block of queries; -1 where all pairs are masked.

    A row sums to 1, as a row of weights does (less the sink's share).
    """
    cell = cell_size(place, size)
    whole = MapRegion(slice(0, place.queries), slice(0, place.keys), cell, mean=True)
    kept = run.stored_call(place.layer, place.part)
    mean = pooled_weights(kept.query[:1], kept.key[:1], kept.lse[:1], kept.call, whole)[0].cpu().float()
    found = mean * cell_counts(place.keys, cell)
    heads = range(place.heads) if _differs_by_head(kept.call, place) else range(1)
    seen = torch.stack([visible_cells(run, place, head, whole) for head in heads])
    return found.masked_fill(~seen, MASKED)


def thumbnails(run: "Run", part: str, layers: slice, size: int) -> bytes:
    """The response with the block mass of every head of some layers, in 8 bits."""
    places = [place for place in run.places if place.part == part][layers]
    maps = [encode(block_masses(run, place, size)) for place in places]
    heads = max(len(x) for x in maps)
    filled = [np.concatenate([x, np.zeros((heads - len(x), *x.shape[1:]), np.uint8)]) for x in maps]
    return to_safetensors({"mass": np.stack(filled)}, {"part": part, "first": layers.start, "cell": cell_size(places[0], size), "encoding": "sqrt8"})


def cell_size(place: "Place", size: int) -> int:
    """The number of tokens that a cell of a thumbnail of this size covers."""
    return max(1, -(-max(place.queries, place.keys) // size))


def top_level(place: "Place") -> int:
    return levels(place.queries, place.keys)


def cell_counts(length: int, cell: int) -> Int[Tensor, " n"]:
    """The number of tokens of each cell: fewer in the last."""
    return torch.arange(0, length, cell).add(cell).clamp(max=length) - torch.arange(0, length, cell)


def visible_cells(run: "Run", place: "Place", head: int, area: MapRegion) -> Bool[Tensor, "h w"]:
    """Whether any query of a cell may attend to any key of it.

    Exact at any size for masks that are intervals of keys. Other masks are evaluated pair by pair in rectangles of up to a million pairs; in larger
    ones a cell counts as visible when its interval is.
    """
    call = run.stored_call(place.layer, place.part).call
    seen = visible_keys(call, place.queries, place.keys)
    found = _by_interval(seen, head, area)
    pairs = (area.rows.stop - area.rows.start) * (area.keys.stop - area.keys.start)
    if pairs <= MAX_PAIRS and (seen.mask is not None or call.bias is not None):
        found &= _by_pair(seen, call, head, area)
    return found


def _differs_by_head(call: Call, place: "Place") -> bool:
    """Whether heads of a call may attend to different keys."""
    seen = visible_keys(call, place.queries, place.keys)
    planes = (seen.first, seen.stop, *(plane for plane in (seen.mask, call.bias) if plane is not None))
    return any(not isinstance(plane, Tensor) or plane.shape[1] > 1 for plane in planes)


def _by_interval(seen: VisibleKeys, head: int, area: MapRegion) -> Bool[Tensor, "h w"]:
    rows, keys, cell = area.rows, area.keys, area.cell
    first, stop = (_interval_of(x, head)[rows] if x.shape[2] > 1 else _interval_of(x, head).expand(rows.stop - rows.start) for x in (seen.first, seen.stop))
    begins = torch.arange(keys.start, keys.stop, cell)
    ends = (begins + cell).clamp(max=keys.stop)
    return _any_row(torch.maximum(first[:, None], begins) < torch.minimum(stop[:, None], ends), cell)


def _by_pair(seen: VisibleKeys, call: Call, head: int, area: MapRegion) -> Bool[Tensor, "h w"]:
    pairs = _plane(seen.tile(area.rows, area.keys), head)
    if call.bias is not None:
        pairs = pairs & (_plane(tile_of(call.bias, area.rows, area.keys), head) != -torch.inf)
    pairs = pairs.expand(area.rows.stop - area.rows.start, area.keys.stop - area.keys.start)
    return _any_row(_any_row(pairs, area.cell).T, area.cell).T


def _interval_of(interval: Int[Tensor, "#B #H #T"], head: int) -> Int[Tensor, " #T"]:
    return interval[0, head if interval.shape[1] > 1 else 0].cpu()


def _plane(plane: Tensor, head: int) -> Tensor:
    return plane[0, head if plane.shape[1] > 1 else 0].cpu()


def _any_row(seen: Bool[Tensor, "t w"], cell: int) -> Bool[Tensor, "h w"]:
    """Rows combined by OR, `cell` at a time."""
    if cell == 1 or not len(seen):
        return seen
    missing = -len(seen) % cell
    padded = torch.cat([seen, seen.new_zeros(missing, seen.shape[1])]) if missing else seen
    return padded.unflatten(0, (-1, cell)).any(1)


def encode(weights: Float[Tensor, "*shape"]) -> np.ndarray:
    """Weights in 8 bits, finest near 0: 0 = masked, 255 = NaN, else w = ((code - 1) / 253)².

    Example:
        >>> encode(torch.tensor([-1.0, 0.0, 0.25, 1.0, float("nan")])).tolist()
        [0, 1, 128, 254, 255]
    """
    code = (weights.clamp(0, 1).sqrt() * CODE_STEPS).add(1.5).floor()
    return code.masked_fill(weights < 0, 0).nan_to_num(nan=255).to(torch.uint8).numpy()
