"""The page's colours of numbers: lightness goes one way for every vision, and in even steps; what has a sign has two ends that all can tell apart."""

import json
import subprocess

import numpy as np
import pytest

from headwise.render import colours as ramp
from tests.frontend.look import STATIC, node
from tests.render.colours import VISIONS, seen

SCRIPT = """import { table } from './src/ramp.js';
const every = ['light', 'dark'].flatMap(theme => ['sequential', 'diverging'].map(kind => [`${theme} ${kind}`, table(theme, kind)]));
console.log(JSON.stringify(Object.fromEntries(every)));"""


@pytest.fixture(scope="module")
def tables() -> dict[str, np.ndarray]:
    """All 256 colours of each ramp, as the page makes them."""
    node()
    done = subprocess.run(["node", "--input-type=module", "-e", SCRIPT], cwd=STATIC, check=True, capture_output=True, text=True)
    return {name: np.array(colours) for name, colours in json.loads(done.stdout).items()}


def apart(colours: np.ndarray) -> np.ndarray:
    """How far neighbours are from one another."""
    return np.linalg.norm(np.diff(colours, axis=0), axis=1)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(("theme", "direction"), [("light", -1), ("dark", 1)])
def test_more_is_always_darker_or_always_lighter(tables, theme, direction, vision):
    lightness = direction * seen(tables[f"{theme} sequential"], vision)[:, 0]
    assert (np.diff(lightness[::5]) > 0).all(), "51 steps, each of which can be seen"
    assert (np.diff(lightness) > -1e-3).all(), "no step of 255 goes back by more than the rounding to 8 bits"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_equal_steps_look_equal(tables, theme):
    steps = apart(seen(tables[f"{theme} sequential"][::15], "all cones"))
    assert steps.max() / steps.min() < 1.3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_and_the_terminal_have_the_same_stops(tables, theme):
    stops = [list(bytes.fromhex(stop[1:])) for stop in {"light": ramp.LIGHT, "dark": ramp.DARK}[theme]]
    np.testing.assert_allclose(tables[f"{theme} sequential"][[0, 51, 102, 153, 204, 255]], stops, atol=1)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(("theme", "direction"), [("light", -1), ("dark", 1)])
def test_a_difference_has_two_ends_that_are_told_apart(tables, theme, direction, vision):
    colours = seen(tables[f"{theme} diverging"], vision)
    lightness = direction * colours[:, 0]
    assert (np.diff(lightness[127::5]) > 0).all() and (np.diff(lightness[127::-5]) > 0).all(), "both ways from zero"
    assert np.linalg.norm(colours[0] - colours[-1]) > 0.1
