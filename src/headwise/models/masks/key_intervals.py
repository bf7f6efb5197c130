"""From a mask that is evaluated tile by tile to the interval of keys that each row sees, with proof that it is one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headwise.axes import Int, Tensor

CELLS = 1 << 20  # evaluated at once


@dataclass(frozen=True, eq=False)
class KeyExtent:
    """Row i sees no key outside [first, stop); `whole` when every row sees every key inside."""

    first: Int[Tensor, "#B #H T"]
    stop: Int[Tensor, "#B #H T"]
    whole: bool


def find_extent(tile: Callable[[slice, slice], Tensor], queries: int, keys: int, device: torch.device) -> KeyExtent:
    """Look at every cell, some rows at a time: O(T) memory. A row that sees nothing has first = stop = 0.

    Example:
        >>> lower = lambda rows, keys: (torch.arange(3)[None, None, rows, None] >= torch.arange(3)[keys])
        >>> found = find_extent(lower, 3, 3, torch.device("cpu"))
        >>> found.first.tolist(), found.stop.tolist(), found.whole
        ([[[0, 0, 0]]], [[[1, 2, 3]]], True)
    """
    if queries == 0 or keys == 0:
        none = torch.zeros(1, 1, queries, dtype=torch.int64, device=device)
        return KeyExtent(none, none, True)
    step, kept, whole = max(1, CELLS // keys), list[Tensor](), True
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        *found, block_whole = _rows(tile(rows, slice(0, keys)))
        if not kept:  # one room for all rows: small tensors kept from each block would settle between the planes, T x S in the end
            kept = [end.new_empty((*end.shape[:-1], queries)) for end in found]
        for end, some in zip(kept, found, strict=True):
            end[..., rows] = some
        whole = whole and block_whole
    first, stop = kept
    return KeyExtent(first, stop, whole)


def _rows(seen: Tensor) -> tuple[Tensor, Tensor, bool]:
    marks = seen.to(torch.uint8)
    count = marks.sum(-1, dtype=torch.int64)
    first = marks.argmax(-1)  # the first of equals
    stop = marks.shape[-1] - marks.flip(-1).argmax(-1)
    alive = count > 0
    first, stop = first.where(alive, 0), stop.where(alive, 0)
    return first, stop, bool((stop - first == count).all())
