from itertools import pairwise

import numpy as np
import pytest

from headwise.render.colours import DARK, LIGHT, colour, ink
from tests.render.colours import VISIONS, seen


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


def channels(ramp, steps=51):
    return np.array([list(bytes.fromhex(colour(step / (steps - 1), ramp)[1:])) for step in range(steps)])


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(("ramp", "direction"), [(LIGHT, -1), (DARK, 1)])
def test_lightness_goes_one_way_for_every_vision(ramp, direction, vision):
    steps = direction * np.diff(seen(channels(ramp), vision)[:, 0])
    assert (steps > 0).all() and steps.max() / steps.min() < 4


@pytest.mark.parametrize("ramp", [LIGHT, DARK])
def test_steps_are_perceptually_even(ramp):
    apart = np.linalg.norm(np.diff(seen(channels(ramp, 26), "all cones"), axis=0), axis=1)
    assert apart.max() / apart.min() < 1.6
