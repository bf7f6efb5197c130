"""A proved bound on the error of one row of weights, by ball arithmetic from the run's own queries and keys."""

import math
from typing import TYPE_CHECKING, Any

import torch

from headwise.attention.call import tile_of
from headwise.attention.mask import visible_keys
from headwise.conformance.exact.certificate import certify, spacing
from headwise.models.runs.slicing import one_head

if TYPE_CHECKING:
    from headwise.models.run import Run
    from headwise.models.runs.places import Place


def certify_row(run: "Run", place: "Place", head: int, query: int) -> dict[str, Any]:
    """An upper bound on the error of the weights and the lse of a row, absolute and in units of the last place.

    A unit is the spacing of floats at the weight itself, and for the lse at max(|lse|, 1).

    Raises:
        ArgumentError: queries or keys are not finite.
    """
    queries, key, lse, call = one_head(run.stored_call(place.layer, place.part), 0, head)
    row, all_keys = slice(query, query + 1), slice(0, place.keys)
    allowed = visible_keys(call, place.queries, place.keys).tile(row, all_keys)
    bias = None if call.bias is None else tile_of(call.bias, row, all_keys)
    certificate = certify(
        queries[:, :, row], key, key[..., :1], rows=[(0, 0, 0)], mask=allowed, bias=bias, scale=call.scale, softcap=call.softcap, sink=call.sink
    )
    shown = run.weights(place.layer, head, row, all_keys, part=place.part)[0]
    weights, low, high = shown.double(), certificate.weights.low[0], certificate.weights.high[0]
    error = torch.maximum((weights - low).abs(), (weights - high).abs())
    worst = int(error.argmax())
    lse_error = _round_up(max(abs(float(lse[0, 0, query]) - float(end[0])) for end in (certificate.lse.low, certificate.lse.high)))
    unit = spacing(torch.tensor(max(abs(float(lse[0, 0, query])), 1.0), dtype=torch.float64), lse.dtype)
    return {
        "query": query,
        "keys": place.keys,
        "bits": certificate.bits,
        "weights": {
            "error": _round_up(float(error[worst])),
            "ulps": _round_up(float((error / spacing(weights, shown.dtype)).max())),
            "enclosed_within": certificate.weights.width,
            "key": worst,
        },
        "lse": {"error": lse_error, "ulps": _round_up(lse_error / float(unit))},
        "sum": {"low": math.fsum(low.tolist()), "high": math.fsum(high.tolist())},
    }


def _round_up(error: float) -> float:
    """A slightly larger number that covers the rounding of the subtraction, so that the bound stays a bound."""
    return math.nextafter(error * (1 + 2**-50), math.inf) if error else 0.0
