"""Two models on the same tokens: how far apart each head's patterns are, and what it writes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from headwise.axes import Float, Tensor
from headwise.models.inputs.encoding import encode
from headwise.models.model import Model
from headwise.models.run import Run
from headwise.models.runs.head_writes import iter_writes
from headwise.models.runs.places import Place

ROWS = 256  # of weights at once


def measured(base: Model, tuned: Model, texts: str | Sequence[str] | Mapping[str, Any], parts: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """For each part: `pattern` and `writes` of every head, [layer, head]; NaN where they cannot be told."""
    given = dict(encode(base.hf, base.tokenizer, texts).kwargs)
    one, two = (model.run(given, statistics=()) for model in (base, tuned))
    places: dict[str, list[Place]] = {}
    for place in one._metadata.places:
        places.setdefault(place.part, []).append(place)
    found: dict[str, dict[str, np.ndarray]] = {}
    for part in parts:
        here = places[part]
        heads = max(place.heads for place in here)
        pattern, writes = np.full((len(here), heads), np.nan), np.full((len(here), heads), np.nan)
        for place in here:
            pattern[place.layer, : place.heads] = [_pattern(one, two, place, head) for head in range(place.heads)]
            writes[place.layer, : place.heads] = _writes(base, tuned, one, two, place)
        found[part] = {"pattern": pattern, "writes": writes}
    return found


def _pattern(one: Run, two: Run, place: Place, head: int) -> float:
    """The mean over real tokens of half the sum of differences of weights."""
    total, count = 0.0, 0
    for batch in range(place.batch):
        for start in range(0, place.queries, ROWS):
            rows = slice(start, min(start + ROWS, place.queries))
            a, b = (run.weights(place.layer, head, queries=rows, batch=batch, part=place.part).double() for run in (one, two))
            apart = (a - b).abs().sum(-1) / 2
            real = ~apart.isnan()  # rows of padding are NaN
            total, count = total + float(apart[real].sum()), count + int(real.sum())
    return total / count if count else float("nan")


def _writes(base: Model, tuned: Model, one: Run, two: Run, place: Place) -> Any:
    """|what the heads write now - what they wrote| / |what they wrote|, by head, over all real tokens."""
    output = one._metadata.layout.sites[place.index].output
    other = two._metadata.layout.sites[place.index].output
    read, now = one._stored_call(place.index).z, two._stored_call(place.index).z
    if output is None or other is None or read is None or now is None:
        return np.full(place.heads, np.nan)
    padding = one._metadata.padding[place.part]
    if padding is not None:
        read, now = (x.masked_fill(padding.to(x.device)[:, :, None, None], 0) for x in (read, now))
    apart = torch.zeros(place.heads, dtype=torch.float64)
    length = torch.zeros(place.heads, dtype=torch.float64)
    for mine, its in zip(iter_writes(read, base.hf.get_submodule(output.module)), iter_writes(now, tuned.hf.get_submodule(other.module)), strict=True):
        apart += _squares(its - mine)
        length += _squares(mine)
    return (apart / length).sqrt().numpy()


def _squares(writes: Float[Tensor, "B t H M"]) -> Float[Tensor, " H"]:
    return writes.double().square().sum((0, 1, 3)).cpu()
