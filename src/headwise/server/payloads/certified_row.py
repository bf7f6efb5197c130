"""The true error of one row of weights, proved by ball arithmetic from the run's own queries and keys."""

import math
from typing import TYPE_CHECKING, Any

import torch

from headwise.attention.call import tile_of
from headwise.attention.mask import visible
from headwise.conformance.exact.certificate import certify, spacing
from headwise.models.runs.slicing import one_head

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place


def certified(run: "Run", place: "Place", head: int, query: int) -> dict[str, Any]:
    """How far the weights and the lse of a row are from the true ones, at most: plainly, and in units of the last place.

    A unit is the spacing of floats at the weight itself, and for the lse at |lse|, or at 1 where that is smaller.

    Raises:
        ArgumentError: numbers that are not finite.
    """
    asked, key, lse, call = one_head(run.stored_call(place.layer, place.part), 0, head)
    row, every = slice(query, query + 1), slice(0, place.keys)
    seen = visible(call, place.queries, place.keys).tile(row, every)
    bias = None if call.bias is None else tile_of(call.bias, row, every)
    options = {"scale": call.scale, "softcap": call.softcap, "sink": call.sink, "mask": seen, "bias": bias}
    found = certify(asked[:, :, row], key, key[..., :1], rows=[(0, 0, 0)], **options)
    shown = run.weights(place.layer, head, row, every, part=place.part)[0]
    ours, low, high = shown.double(), found.weights.low[0], found.weights.high[0]
    off = torch.maximum((ours - low).abs(), (ours - high).abs())
    worst = int(off.argmax())
    of_lse = _up(max(abs(float(lse[0, 0, query]) - float(end[0])) for end in (found.lse.low, found.lse.high)))
    unit = spacing(torch.tensor(max(abs(float(lse[0, 0, query])), 1.0), dtype=torch.float64), lse.dtype)
    return {
        "query": query,
        "keys": place.keys,
        "bits": found.bits,
        "weights": {
            "error": _up(float(off[worst])),
            "ulps": _up(float((off / spacing(ours, shown.dtype)).max())),
            "enclosed_within": found.weights.width,
            "at": worst,
        },
        "lse": {"error": of_lse, "ulps": _up(of_lse / float(unit))},
        "sum": {"low": math.fsum(low.tolist()), "high": math.fsum(high.tolist())},
    }


def _up(error: float) -> float:
    """A little more, for the rounding of the subtraction: the bound stays one."""
    return math.nextafter(error * (1 + 2**-50), math.inf) if error else 0.0
