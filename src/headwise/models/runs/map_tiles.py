"""A map of weights at any zoom, 256 x 256 pixels at a time: levels, columns and rows as OpenSeadragon counts them."""

from headwise.attention.call import MapRegion
from headwise.errors import ArgumentError

SIZE = 256
POOLS = ("max", "mean")


def levels(queries: int, keys: int) -> int:
    """The level at which a pixel is one weight; at each level below, a pixel is twice as wide and high.

    Example:
        >>> levels(1000, 1024), levels(3, 5)
        (10, 3)
    """
    return (max(queries, keys) - 1).bit_length()


def tile_area(queries: int, keys: int, level: int, column: int, row: int, pool: str) -> MapRegion:
    """The rectangle of one tile; smaller than 256 cells at the right and lower edge.

    Args:
        level: 0 is one pixel in all; `levels(queries, keys)` shows every weight.

    Raises:
        ArgumentError: no such level, tile or pool.

    Example:
        >>> tile_area(1000, 1024, 9, 1, 0, "max").shape
        (256, 256)
    """
    top = levels(queries, keys)
    _check("level", level, top + 1)
    if pool not in POOLS:
        raise ArgumentError(f"pool must be 'max' or 'mean', got {pool!r}. 'max' keeps single strong weights in sight.")
    cell = 1 << (top - level)
    span = SIZE * cell
    _check("column", column, -(-keys // span))
    _check("row", row, -(-queries // span))
    rows = slice(row * span, min((row + 1) * span, queries))
    return MapRegion(rows, slice(column * span, min((column + 1) * span, keys)), cell, mean=pool == "mean")


def _check(name: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise ArgumentError(f"{name} must be in 0..{count - 1}, got {number!r}. Choose one of these.")
