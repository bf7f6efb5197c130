"""Maps of weights as the page draws them: weights, pooled tiles, block mass of all heads; what is hidden told apart from what is zero."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.attention.call import Area, Call, tile_of
from headwise.attention.mask import Visible, visible
from headwise.attention.weights import pooled_weights
from headwise.axes import Bool, Float, Int, Tensor
from headwise.models.runs.map_tiles import levels, tile_area
from headwise.server.payloads.array_pack import pack

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place

HIDDEN = -1.0
PAIRS = 1 << 20  # pairs of query and key for which a mask that is no interval is asked one by one
STEPS = 253  # of the 8-bit code, which begins at 1


def rectangle(run: "Run", place: "Place", head: int, rows: slice, keys: slice) -> Float[Tensor, "t s"]:
    """The exact weights of some rows and keys; -1 where hidden."""
    found = run.weights(place.layer, head, rows, keys, part=place.part)
    seen = seen_cells(run, place, head, Area(rows, keys))
    return found.masked_fill(~seen, HIDDEN)


def tile(run: "Run", place: "Place", head: int, where: tuple[int, int, int], pool: str) -> Float[Tensor, "h w"]:
    """One tile; -1 where no query of a pixel sees a key of it.

    Args:
        where: level, column, row.
    """
    level, column, row = where
    found = run.tile(place.layer, head, level, column, row, pool, part=place.part)
    return found.masked_fill(~seen_cells(run, place, head, tile_area(place.queries, place.keys, level, column, row, pool)), HIDDEN)


def masses(run: "Run", place: "Place", size: int) -> Float[Tensor, "H h w"]:
    """Block mass of every head of a layer: what a query of a block gives to a block of keys, in the mean over the block; -1 where all is hidden.

    A row of it adds up to 1, as a row of weights does (less the sink's share).
    """
    cell = cell_of(place, size)
    whole = Area(slice(0, place.queries), slice(0, place.keys), cell, mean=True)
    kept = run.stored_call(place.layer, place.part)
    mean = pooled_weights(kept.query[:1], kept.key[:1], kept.lse[:1], kept.call, whole)[0].cpu().float()
    found = mean * counts(place.keys, cell)
    several = range(place.heads) if _by_head(kept.call, place) else range(1)
    seen = torch.stack([seen_cells(run, place, head, whole) for head in several])
    return found.masked_fill(~seen, HIDDEN)


def thumbnails(run: "Run", part: str, some: slice, size: int) -> bytes:
    """Block mass of every head of some layers, in 8 bits, as the page reads it."""
    layers = [place for place in run.places if place.part == part][some]
    made = [coded(masses(run, place, size)) for place in layers]
    most = max(len(x) for x in made)
    filled = [np.concatenate([x, np.zeros((most - len(x), *x.shape[1:]), np.uint8)]) for x in made]
    return pack({"mass": np.stack(filled)}, {"part": part, "first": some.start, "cell": cell_of(layers[0], size), "encoding": "sqrt8"})


def cell_of(place: "Place", size: int) -> int:
    """How many tokens a cell of a thumbnail of this size covers."""
    return max(1, -(-max(place.queries, place.keys) // size))


def top_level(place: "Place") -> int:
    return levels(place.queries, place.keys)


def counts(length: int, cell: int) -> Int[Tensor, " n"]:
    """How many tokens each cell has: fewer in the last."""
    return torch.arange(0, length, cell).add(cell).clamp(max=length) - torch.arange(0, length, cell)


def seen_cells(run: "Run", place: "Place", head: int, where: Area) -> Bool[Tensor, "h w"]:
    """Whether any query of a cell sees any key of it.

    Masks are intervals of keys, for which this is exact at any size. Where a mask is more than that, its exceptions are looked
    at in rectangles of up to a million pairs; in larger ones a cell counts as seen when its interval is.
    """
    call = run.stored_call(place.layer, place.part).call
    seen = visible(call, place.queries, place.keys)
    found = _by_interval(seen, head, where)
    pairs = (where.rows.stop - where.rows.start) * (where.keys.stop - where.keys.start)
    if pairs <= PAIRS and (seen.mask is not None or call.bias is not None):
        found &= _by_pair(seen, call, head, where)
    return found


def _by_head(call: Call, place: "Place") -> bool:
    """Whether heads of a call may see different keys."""
    seen = visible(call, place.queries, place.keys)
    planes = (seen.first, seen.stop, *(plane for plane in (seen.mask, call.bias) if plane is not None))
    return any(not isinstance(plane, Tensor) or plane.shape[1] > 1 for plane in planes)


def _by_interval(seen: Visible, head: int, where: Area) -> Bool[Tensor, "h w"]:
    rows, keys, cell = where.rows, where.keys, where.cell
    first, stop = (_one(x, head)[rows] if x.shape[2] > 1 else _one(x, head).expand(rows.stop - rows.start) for x in (seen.first, seen.stop))
    begins = torch.arange(keys.start, keys.stop, cell)
    ends = (begins + cell).clamp(max=keys.stop)
    return _any_row(torch.maximum(first[:, None], begins) < torch.minimum(stop[:, None], ends), cell)


def _by_pair(seen: Visible, call: Call, head: int, where: Area) -> Bool[Tensor, "h w"]:
    pairs = _plane(seen.tile(where.rows, where.keys), head)
    if call.bias is not None:
        pairs = pairs & (_plane(tile_of(call.bias, where.rows, where.keys), head) != -torch.inf)
    pairs = pairs.expand(where.rows.stop - where.rows.start, where.keys.stop - where.keys.start)
    return _any_row(_any_row(pairs, where.cell).T, where.cell).T


def _one(interval: Int[Tensor, "#B #H #T"], head: int) -> Int[Tensor, " #T"]:
    return interval[0, head if interval.shape[1] > 1 else 0].cpu()


def _plane(plane: Tensor, head: int) -> Tensor:
    return plane[0, head if plane.shape[1] > 1 else 0].cpu()


def _any_row(seen: Bool[Tensor, "t w"], cell: int) -> Bool[Tensor, "h w"]:
    """Rows joined, `cell` at a time."""
    if cell == 1 or not len(seen):
        return seen
    lacking = -len(seen) % cell
    padded = torch.cat([seen, seen.new_zeros(lacking, seen.shape[1])]) if lacking else seen
    return padded.unflatten(0, (-1, cell)).any(1)


def coded(found: Float[Tensor, "*shape"]) -> np.ndarray:
    """Weights in 8 bits, finest near 0: 0 = hidden, 255 = NaN, else w = ((code - 1) / 253)².

    Example:
        >>> coded(torch.tensor([-1.0, 0.0, 0.25, 1.0, float("nan")])).tolist()
        [0, 1, 128, 254, 255]
    """
    code = (found.clamp(0, 1).sqrt() * STEPS).add(1.5).floor()
    return code.masked_fill(found < 0, 0).nan_to_num(nan=255).to(torch.uint8).numpy()
