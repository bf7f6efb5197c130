"""The exact weights of any rectangle of the T × S map, from q, k, lse and the call: in full, or pooled at any resolution.

So nothing else of a call needs to be stored. The weights that are pooled are never held at once: an image of a 32k × 32k map
takes the memory of its pixels.
"""

import torch
from torch.nn.functional import pad

from headwise.attention.call import Call, Kernel, MapRegion, no_autocast, tile_of
from headwise.attention.mask import visible_keys
from headwise.axes import Float, Int, Key, Query, Rows, Tensor
from headwise.catalog import entries

WEIGHTS_AT_ONCE = 1 << 22  # held in memory where no kernel pools


def weights(query: Query, key: Key, lse: Rows, call: Call, rows: slice, keys: slice) -> Float[Tensor, "B H t s"]:
    """The weights of the queries in `rows` on the keys in `keys`, in the dtype of `lse`; exactly 0 where hidden.

    Args:
        query: all queries of the call.
        key: all keys of the call.
        lse: of every query, as `attend` returned it.
        call: the call that returned it.
        rows: a slice with start and stop and without a step.
        keys: likewise.
    """
    scores = masked_scores(query, key, call, rows, keys, lse.dtype)
    finite = lse.masked_fill(lse == torch.inf, torch.nan)  # a row with an infinite score has no weights
    found = (scores - finite[:, :, rows, None]).exp()
    return found.masked_fill(scores == -torch.inf, 0)


def masked_scores(query: Query, key: Key, call: Call, rows: slice, keys: slice, dtype: torch.dtype) -> Float[Tensor, "B H t s"]:
    """The scores of a rectangle as the softmax takes them: scaled, capped, biased; -inf where hidden."""
    groups = key.shape[1]
    q = query[:, :, rows].to(dtype).unflatten(1, (groups, query.shape[1] // max(groups, 1)))
    k = key[:, :, keys].to(dtype)
    with no_autocast(query):
        scores = torch.einsum("bgrtd,bgsd->bgrts", q * call.scale, k).flatten(1, 2)
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    hidden = ~visible_keys(call, query.shape[2], key.shape[2]).tile(rows, keys)
    if call.bias is not None:
        bias = tile_of(call.bias, rows, keys)
        scores, hidden = scores + bias, hidden | (bias == -torch.inf)
    return scores.masked_fill(hidden, -torch.inf)


def pooled_weights(query: Query, key: Key, lse: Rows, call: Call, region: MapRegion) -> Float[Tensor, "B H h w"]:
    """The largest or the mean weight of every cell of a rectangle, by the fastest kernel that can.

        max   max of w_ij over the cell's rows i and keys j
        mean  Σ w_ij / number of pairs in the cell

    A cell that holds a NaN is NaN. With cell = 1 these are the weights themselves.

    Args:
        query: all queries of the call.
        key: all keys of the call.
        lse: of every query, as `attend` returned it.
        call: the call that returned it.
        region: the rectangle, its resolution, and the queries that are padding.

    Example:
        >>> q, k, lse = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2), torch.tensor([1.0, 2, 3, 4]).log()[None, None]
        >>> call = Call(scale=1.0, offset=torch.zeros(1, dtype=torch.int64), causal=True)
        >>> pooled_weights(q, k, lse, call, MapRegion(slice(0, 4), slice(0, 4), cell=2))[0, 0]
        tensor([[1.0000, 0.0000],
                [0.3333, 0.3333]])
    """
    kernels: dict[str, Kernel] = dict(entries("headwise.attention.kernels"))
    for kernel in sorted(kernels.values(), key=lambda kernel: -kernel.preference):
        if kernel.pool is not None and kernel.refusal(query, key, key, call, ()) is None:
            return kernel.pool(query, key, lse, call, region)
    return pooled_in_torch(query, key, lse, call, region)


def pooled_in_torch(query: Query, key: Key, lse: Rows, call: Call, region: MapRegion) -> Float[Tensor, "B H h w"]:
    """The same in torch, on any device, a few rows of cells at a time."""
    rows, keys, cell = region.rows, region.keys, region.cell
    width = (keys.stop - keys.start) * query.shape[0] * query.shape[1]
    step = max(1, WEIGHTS_AT_ONCE // max(1, width * cell)) * cell
    pooled = []
    for start in range(rows.start, rows.stop, step):
        some = slice(start, min(start + step, rows.stop))
        block = weights(query, key, lse, call, some, keys)
        pooled.append(_pool(block if region.padding is None else block.masked_fill(region.padding[:, None, some, None], 0), region))
    return torch.cat(pooled, 2) if pooled else lse.new_zeros(*query.shape[:2], *region.shape)


def _pool(block: Float[Tensor, "B H t s"], region: MapRegion) -> Float[Tensor, "B H h w"]:
    t, s = block.shape[2:]
    if s == 0:
        return block.new_zeros(*block.shape[:2], -(-t // region.cell), 0)
    filled = pad(block, (0, -s % region.cell, 0, -t % region.cell))
    cells = filled.unflatten(3, (-1, region.cell)).unflatten(2, (-1, region.cell))
    if not region.mean:
        return cells.amax((3, 5))
    return cells.sum((3, 5)) / (_counts(t, region.cell)[:, None] * _counts(s, region.cell)).to(block)


def _counts(length: int, cell: int) -> Int[Tensor, " n"]:
    """The number of rows or keys in each cell: fewer at the edge."""
    return torch.arange(cell, length + cell, cell).clamp(max=length) - torch.arange(0, length, cell)
