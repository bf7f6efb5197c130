"""The exact weights of any rectangle of the T x S map, from q, k, lse and the call; whole, or pooled cell by cell at any zoom.

Nothing else needs to be kept. What is pooled is never held whole: a picture of a 32k x 32k map takes the memory of its pixels.
"""

import torch
from torch.nn.functional import pad

from headwise.attention.call import Area, Call, Kernel, no_autocast, tile_of
from headwise.attention.mask import visible
from headwise.axes import Float, Int, Key, Query, Rows, Tensor
from headwise.catalog import entries

AT_ONCE = 1 << 22  # weights that are held at once where no kernel pools them


def weights(query: Query, key: Key, lse: Rows, call: Call, rows: slice, keys: slice) -> Float[Tensor, "B H t s"]:
    """The weights that the queries of `rows` give to `keys`, in the dtype of `lse`; hidden ones are exactly 0.

    Args:
        query: all queries of the call.
        key: all keys of the call.
        lse: of every row, as `attend` gave it.
        call: the call that gave it.
        rows: start and stop are given, step is not.
        keys: likewise.
    """
    scores = masked_scores(query, key, call, rows, keys, lse.dtype)
    ends = lse.masked_fill(lse == torch.inf, torch.nan)  # a row with an infinite score has no weights
    found = (scores - ends[:, :, rows, None]).exp()
    return found.masked_fill(scores == -torch.inf, 0)


def masked_scores(query: Query, key: Key, call: Call, rows: slice, keys: slice, dtype: torch.dtype) -> Float[Tensor, "B H t s"]:
    """What the softmax sees of a rectangle: scaled, capped, biased; -inf where hidden."""
    groups = key.shape[1]
    q = query[:, :, rows].to(dtype).unflatten(1, (groups, query.shape[1] // max(groups, 1)))
    k = key[:, :, keys].to(dtype)
    with no_autocast(query):
        scores = torch.einsum("bgrtd,bgsd->bgrts", q * call.scale, k).flatten(1, 2)
    if call.softcap is not None:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    hidden = ~visible(call, query.shape[2], key.shape[2]).tile(rows, keys)
    if call.bias is not None:
        bias = tile_of(call.bias, rows, keys)
        scores, hidden = scores + bias, hidden | (bias == -torch.inf)
    return scores.masked_fill(hidden, -torch.inf)


def pooled_weights(query: Query, key: Key, lse: Rows, call: Call, area: Area) -> Float[Tensor, "B H h w"]:
    """The largest or the mean weight of every cell of an area, by the fastest kernel that can.

        max   max of w_ij over the cell's rows i and keys j
        mean  Σ w_ij / how many pairs the cell has

    A cell that holds a NaN is NaN. With cell = 1 these are the weights themselves.

    Args:
        query: all queries of the call.
        key: all keys of the call.
        lse: of every row, as `attend` gave it.
        call: the call that gave it.
        area: which rectangle, how finely, and which queries are padding.

    Example:
        >>> q, k, lse = torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2), torch.tensor([1.0, 2, 3, 4]).log()[None, None]
        >>> call = Call(scale=1.0, offset=torch.zeros(1, dtype=torch.int64), causal=True)
        >>> pooled_weights(q, k, lse, call, Area(slice(0, 4), slice(0, 4), cell=2))[0, 0]
        tensor([[1.0000, 0.0000],
                [0.3333, 0.3333]])
    """
    kernels: dict[str, Kernel] = dict(entries("headwise.attention.kernels"))
    for kernel in sorted(kernels.values(), key=lambda kernel: -kernel.preference):
        if kernel.pool is not None and kernel.refusal(query, key, key, call, ()) is None:
            return kernel.pool(query, key, lse, call, area)
    return pooled_in_torch(query, key, lse, call, area)


def pooled_in_torch(query: Query, key: Key, lse: Rows, call: Call, area: Area) -> Float[Tensor, "B H h w"]:
    """The same in torch, on any device: some lines of cells at a time, their weights made and pooled."""
    rows, keys, cell = area.rows, area.keys, area.cell
    width = (keys.stop - keys.start) * query.shape[0] * query.shape[1]
    step = max(1, AT_ONCE // max(1, width * cell)) * cell
    strips = []
    for start in range(rows.start, rows.stop, step):
        some = slice(start, min(start + step, rows.stop))
        block = weights(query, key, lse, call, some, keys)
        strips.append(_pool(block if area.blank is None else block.masked_fill(area.blank[:, None, some, None], 0), area))
    return torch.cat(strips, 2) if strips else lse.new_zeros(*query.shape[:2], *area.shape)


def _pool(block: Float[Tensor, "B H t s"], area: Area) -> Float[Tensor, "B H h w"]:
    t, s = block.shape[2:]
    if s == 0:
        return block.new_zeros(*block.shape[:2], -(-t // area.cell), 0)
    filled = pad(block, (0, -s % area.cell, 0, -t % area.cell))
    cells = filled.unflatten(3, (-1, area.cell)).unflatten(2, (-1, area.cell))
    if not area.mean:
        return cells.amax((3, 5))
    return cells.sum((3, 5)) / (_counts(t, area.cell)[:, None] * _counts(s, area.cell)).to(block)


def _counts(length: int, cell: int) -> Int[Tensor, " n"]:
    """How many rows or keys each cell has: fewer at the edge."""
    return torch.arange(cell, length + cell, cell).clamp(max=length) - torch.arange(0, length, cell)
