"""Which rectangle of the map a tile is."""

import pytest

from headwise.errors import ArgumentError
from headwise.models.runs.map_tiles import levels, tile_area


@pytest.mark.parametrize(
    ("queries", "keys", "level", "column", "row"), [(1000, 1024, 10, 3, 2), (1000, 1300, 10, 2, 1), (300, 5000, 13, 19, 1), (7, 3, 0, 0, 0)]
)
def test_tiles_cover_the_map_without_overlap(queries, keys, level, column, row):
    found = tile_area(queries, keys, level, column, row, "max")
    assert found.cell == 2 ** (levels(queries, keys) - level)
    assert (found.rows.start, found.keys.start) == (256 * found.cell * row, 256 * found.cell * column)
    assert found.rows.stop == min(256 * found.cell * (row + 1), queries)
    assert found.keys.stop == min(256 * found.cell * (column + 1), keys)
    assert max(found.shape) <= 256


def test_the_lowest_level_is_one_pixel():
    assert tile_area(1000, 1024, 0, 0, 0, "mean").shape == (1, 1)
    assert tile_area(1000, 1024, 0, 0, 0, "mean").mean


@pytest.mark.parametrize(
    ("tile", "says"),
    [
        ((11, 0, 0, "max"), r"level must be in 0..10, got 11. Choose one of these."),
        ((-1, 0, 0, "max"), r"level must be in 0..10, got -1."),
        ((10, 4, 0, "max"), r"column must be in 0..3, got 4."),
        ((10, 0, True, "max"), r"row must be in 0..3, got True."),
        ((10, 0, 0, "median"), r"pool must be 'max' or 'mean', got 'median'."),
    ],
)
def test_what_is_no_tile_is_refused(plain, tile, says):
    with pytest.raises(ArgumentError, match=says):
        tile_area(1000, 1024, *tile)
