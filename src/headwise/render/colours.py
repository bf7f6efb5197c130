"""The colours of numbers: a sequential ramp of even steps, readable with any colour vision, whose zero is the paper's own colour."""

from itertools import pairwise

LIGHT = ("#f7f8ef", "#a1d8b4", "#28b3aa", "#1a8096", "#01507f", "#1b2548")
DARK = ("#191e27", "#01485c", "#037674", "#1ea877", "#9cca7e", "#edeaad")


def colour(share: float, ramp: tuple[str, ...] = DARK) -> str:
    """The colour at a position on the ramp, from 0 to 1; positions outside are clipped.

    Example:
        >>> colour(0.0), colour(1.0), colour(0.1)
        ('#191e27', '#edeaad', '#0d3342')
    """
    place = min(max(share, 0.0), 1.0) * (len(ramp) - 1)
    step = min(int(place), len(ramp) - 2)
    below, above = list(pairwise(ramp))[step]
    mixed = (round(a + (b - a) * (place - step)) for a, b in zip(_channels(below), _channels(above), strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ink(paper: str) -> str:
    """Black or white, whichever reads better on this colour.

    Example:
        >>> ink("#191e27"), ink("#edeaad")
        ('#ffffff', '#000000')
    """
    red, green, blue = ((channel / 255) ** 2.2 for channel in _channels(paper))
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"


def _channels(hexadecimal: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(hexadecimal[1:])
    return red, green, blue
