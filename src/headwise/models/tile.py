"""A map of weights at any zoom, 256 x 256 pixels at a time: levels, columns and rows as OpenSeadragon counts them."""

from collections.abc import Callable

import torch
from torch.nn.functional import pad

from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError

SIZE = 256
CELLS = 1 << 22  # weights made at once
POOLS = ("max", "mean")


def levels(queries: int, keys: int) -> int:
    """The level at which a pixel is one weight; at each level below, a pixel is twice as wide and high.

    Example:
        >>> levels(1000, 1024), levels(3, 5)
        (10, 3)
    """
    return (max(queries, keys) - 1).bit_length()


def pooled(weights: Callable[[slice, slice], Tensor], queries: int, keys: int, level: int, column: int, row: int, pool: str) -> Float[Tensor, "h w"]:
    """One tile: the largest or the mean weight under each pixel; smaller than 256 at the right and lower edge.

    Args:
        weights: makes any rectangle of the map.
        level: 0 is one pixel in all; `levels(queries, keys)` shows every weight.

    Raises:
        ArgumentError: no such level, tile or pool.
    """
    top = levels(queries, keys)
    _check("level", level, top + 1)
    if pool not in POOLS:
        raise ArgumentError(f"pool must be 'max' or 'mean', got {pool!r}. 'max' keeps single strong weights in sight.")
    scale = 1 << (top - level)
    height, width = -(-queries // scale), -(-keys // scale)
    _check("column", column, -(-width // SIZE))
    _check("row", row, -(-height // SIZE))
    lines = range(row * SIZE, min((row + 1) * SIZE, height))
    span = slice(column * SIZE * scale, min((column + 1) * SIZE * scale, keys))
    at_once = max(1, CELLS // ((span.stop - span.start) * scale))
    strips = []
    for line in range(lines.start, lines.stop, at_once):
        rows = slice(line * scale, min((line + at_once) * scale, lines.stop * scale, queries))
        strips.append(_pool(weights(rows, span), scale, pool))
    return torch.cat(strips)


def _pool(block: Tensor, scale: int, pool: str) -> Tensor:
    t, s = block.shape
    filled = pad(block, (0, -s % scale, 0, -t % scale))
    cells = filled.view(filled.shape[0] // scale, scale, filled.shape[1] // scale, scale)
    if pool == "max":
        return cells.amax((1, 3))
    return cells.sum((1, 3)) / (_counts(t, scale)[:, None] * _counts(s, scale)).to(block)


def _counts(length: int, scale: int) -> Tensor:
    """How many cells each pixel has: fewer at the edge."""
    return torch.arange(scale, length + scale, scale).clamp(max=length) - torch.arange(0, length, scale)


def _check(name: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise ArgumentError(f"{name} must be in 0..{count - 1}, got {number!r}. Choose one of these.")
