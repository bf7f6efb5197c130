"""Statistics of a part as one labelled array each: batch, layer, head, query."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headwise.attention.statistics import statistics as known_statistics
from headwise.axes import Bool, Tensor
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    import xarray

WITHOUT_MEANING_ACROSS = ("distance", "previous", "self")  # positions of queries and keys count different tokens there, or from different ones


def part_dataset(
    part: str,
    places: Sequence[Place],
    numbers: Sequence[Mapping[str, Tensor]],
    tokens: Sequence[Sequence[str]],
    key_tokens: Sequence[Sequence[str]],
    padding: Bool[Tensor, "B T"] | None,
) -> "xarray.Dataset":
    """The numbers of a part's layers; NaN (keys: -1) on padding queries and on heads that a layer lacks.

    Args:
        places: the part's calls.
        numbers: of each call by name: [B, H, T], [B, H, S] for `received`, [B, H, T, segments] for `segment`.
        tokens: of the queries, by batch row.
        padding: True where a query is padding.
    """
    import xarray

    first = places[0]
    heads = max(place.heads for place in places)
    padded = np.zeros((first.batch, first.queries), bool) if padding is None else padding.numpy()
    coords = {
        "batch": range(first.batch),
        "layer": range(len(places)),
        "head": range(heads),
        "query": range(first.queries),
        "layer_name": ("layer", [place.module for place in places]),
        "key_heads": ("layer", [place.key_heads for place in places]),
        "token": (("batch", "query"), _words(tokens, first.batch, first.queries)),
        "padding": (("batch", "query"), padded),
    }
    variables = {}
    for name in numbers[0]:
        dims = _dims(name)
        array = np.stack([_filled(x[name].numpy(), heads) for x in numbers], 1)
        if "query" in dims:
            spread = padded.reshape(first.batch, 1, 1, first.queries, *(1,) * (array.ndim - 4))
            array = np.where(spread, _missing(array), array)
        if name in WITHOUT_MEANING_ACROSS and (first.cross or first.blocks):
            array = np.full_like(array, np.nan)
        variables[name] = (dims, array, _attributes(name))
    if any("key" in dims for dims, _, _ in variables.values()):
        coords["key"] = range(first.keys)
        coords["key_token"] = (("batch", "key"), _words(key_tokens, first.batch, first.keys))
    return xarray.Dataset(variables, coords, {"part": part})


def _dims(name: str) -> tuple[str, ...]:
    along = "key" if name == "received" else "query"
    return ("batch", "layer", "head", along, *(("segment",) if name == "segment" else ()))


def _filled(array: np.ndarray, heads: int) -> np.ndarray:
    """[B, h, ...] with as many heads as the layer with the most."""
    lacking = heads - array.shape[1]
    if not lacking:
        return array
    filler = np.full((array.shape[0], lacking, *array.shape[2:]), _missing(array), array.dtype)
    return np.concatenate([array, filler], 1)


def _missing(array: np.ndarray) -> float | int:
    return np.nan if np.issubdtype(array.dtype, np.floating) else -1


def _words(tokens: Sequence[Sequence[str]], batch: int, length: int) -> np.ndarray:
    """Tokens as an array of text; numbers where the rows have no tokens of this length."""
    if len(tokens) == batch and all(len(row) == length for row in tokens):
        return np.array([list(row) for row in tokens], dtype=object)
    return np.array([[str(i) for i in range(length)]] * batch, dtype=object)


def _attributes(name: str) -> dict[str, str]:
    entry = known_statistics().get(name)
    return {} if entry is None else {"long_name": entry.statement, "formula": entry.formula, "units": entry.unit}
