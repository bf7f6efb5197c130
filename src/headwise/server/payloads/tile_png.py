"""A tile as a PNG in the page's colours; masked pixels are transparent."""

from functools import cache
from io import BytesIO

import numpy as np

from headwise.axes import Float, Tensor
from headwise.render.colours import DARK, LIGHT, colour

RAMPS = {"light": LIGHT, "dark": DARK}
SCALES = ("sqrt", "lin", "log")
DECADES = 5  # of the logarithmic scale, below 1


def tile_png(tile: Float[Tensor, "h w"], ramp: str, scale: str) -> bytes:
    """The image of a tile.

    Args:
        ramp: light or dark.
        scale: how a weight is mapped to the ramp: sqrt, lin or log.
    """
    from PIL import Image

    weights = tile.numpy()
    clipped = np.clip(np.nan_to_num(weights), 0, 1)
    positions = {"sqrt": np.sqrt, "lin": lambda x: x, "log": _log}[scale](clipped)
    colours = _table(ramp)[np.rint(positions * 255).astype(np.uint8)]
    colours[weights < 0] = 0
    colours[np.isnan(weights)] = (255, 0, 255, 255)
    file = BytesIO()
    Image.fromarray(colours, "RGBA").save(file, "PNG", compress_level=1)
    return file.getvalue()


def _log(weights: np.ndarray) -> np.ndarray:
    return np.clip(1 + np.log10(np.maximum(weights, 10.0**-DECADES)) / DECADES, 0, 1)


@cache
def _table(ramp: str) -> np.ndarray:
    """256 colours along a ramp."""
    colours = [colour(step / 255, RAMPS[ramp]) for step in range(256)]
    return np.array([[*bytes.fromhex(one[1:]), 255] for one in colours], np.uint8)
