from itertools import pairwise

import pytest

from headwise.show.ramp import DARK, LIGHT, colour, ink


def luminance(hexadecimal):
    red, green, blue = ((channel / 255) ** 2.2 for channel in bytes.fromhex(hexadecimal[1:]))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("ramp", "direction"), [(LIGHT, -1), (DARK, 1)])
def test_lightness_only_ever_goes_one_way(ramp, direction):
    steps = [luminance(colour(step / 50, ramp)) for step in range(51)]
    assert all(direction * (after - before) > 0 for before, after in pairwise(steps))


@pytest.mark.parametrize("ramp", [LIGHT, DARK])
def test_stops_and_ends(ramp):
    assert [colour(step / 5, ramp) for step in range(6)] == list(ramp)
    assert colour(-3.0, ramp) == ramp[0]
    assert colour(7.0, ramp) == ramp[-1]


@pytest.mark.parametrize("ramp", [LIGHT, DARK])
def test_ink_reads_on_every_colour(ramp):
    for step in range(51):
        paper = luminance(colour(step / 50, ramp))
        word = luminance(ink(colour(step / 50, ramp)))
        assert (max(paper, word) + 0.05) / (min(paper, word) + 0.05) >= 4.5
