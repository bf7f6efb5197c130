"""`hw.compare`: what fine-tuning did to each head, from two checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.analysis.checkpoints.change_verdict import Thresholds, verdict
from headwise.analysis.checkpoints.checkpoint_pair import Checkpoint, base_of, opened, tuned_of
from headwise.analysis.checkpoints.circuits import layer_of
from headwise.analysis.checkpoints.layer_changes import Changes, changes
from headwise.errors import ArgumentError
from headwise.models.runs.places import Place

if TYPE_CHECKING:
    import xarray

MEANINGS = {
    "gain": "size of OV, tuned over base, over the layer's median head's",
    "ov": "cosine of OV, what the head writes for what it reads, tuned with base",
    "qk": "cosine of QK, what the head looks for, tuned with base",
    "size": "size of QK, tuned over base, over the layer's median head's",
    "temperature": "the softmax temperature that this size of QK implies: 1 / size",
    "twin": "the head of the base whose slices it took, or -1",
    "verdict": "the first that applies of tied, muted, amplified, rewired, tempered, sharpened; else unchanged",
    "evidence": "the number that made the verdict, and its threshold",
    "pattern": "on the texts: how far apart the weights of a token are, half the sum of differences, 0 to 1, mean over the tokens",
    "writes": "on the texts: length of the difference of what the head writes, over the length of what it wrote",
}


def compare(
    base: Any, tuned: Any, texts: str | Sequence[str] | Mapping[str, Any] | None = None, *, part: str | None = None, inputs: Any = None, **thresholds: float
) -> "xarray.Dataset":
    """What changed in each head between two checkpoints of one architecture.

    From weights alone, read layer by layer, unless there are texts. For each head, with A = W_V[g]ᵀ·W_O[h] (OV) and W_Q[h]ᵀ·W_K[g] (QK),
    biases of values and queries included:

        gain = |OV'| / |OV| ÷ the layer's median     ov, qk = cosine of tuned with base     size = |QK'| / |QK| ÷ the median
        temperature = 1 / size

    What changes all heads of a layer alike is no change of a head, hence the median. Where queries and keys are normalised their
    projections' size means nothing: there `size` is taken after the norm. A key head that changed concerns every head that reads it.

    Args:
        base, tuned: each what `open_model` takes, or a model that it gave. `tuned` may be a folder with a LoRA adapter of the base.
        texts: to run both models on as well (or a dict of their own inputs): adds `pattern` and `writes`.
        part: which attention, such as "decoder.cross", where a model has several.
        inputs: a short input to find the heads with, where a model reads no text.
        thresholds: tied=0.95, muted=0.7, amplified=1.25, rewired=0.8, tempered=0.8, sharpened=1.25.

    Returns:
        A Dataset over layer and head: the numbers above, `verdict` (the first that applies, in the order of the thresholds; else
        "unchanged"), and `evidence`, the number that made it.

    Raises:
        ModelError: the two are of different architectures.
        ArgumentError: there are several parts and none is named; a threshold that is none.

    Example:
        >>> import torch
        >>> from headwise.models.loading.open_model import open_model
        >>> from transformers import BertConfig, BertModel
        >>> hf = BertModel(BertConfig(hidden_size=12, num_attention_heads=3, num_hidden_layers=2, intermediate_size=8, vocab_size=20))
        >>> from headwise.interventions.edits.ablate import Ablate
        >>> compare(hf, open_model(hf).edit(Ablate(1, 2)))["verdict"].sel(layer=1).values.tolist()
        ['unchanged', 'unchanged', 'muted']
    """
    found = compared(base, tuned, texts, part=part, inputs=inputs, **thresholds)
    if len(found) > 1:
        raise ArgumentError(f"part must be given where a model has several, got None. Choose one of {', '.join(found)}.")
    return next(iter(found.values()))


def compared(
    base: Any, tuned: Any, texts: str | Sequence[str] | Mapping[str, Any] | None = None, *, part: str | None = None, inputs: Any = None, **thresholds: float
) -> "dict[str, xarray.Dataset]":
    """Each part of two models, or the one asked for; see `compare`."""
    limits = _thresholds(thresholds)
    one = base_of(base, inputs)
    two = tuned_of(tuned, one, inputs)
    parts = one.head_map.parts
    if part is not None and part not in parts:
        raise ArgumentError(f"part must be one of {', '.join(parts)}, got {part!r}. Correct the name.")
    chosen = parts if part is None else {part: parts[part]}
    measured = _on_texts(one, two, texts, list(chosen)) if texts is not None else {}
    return {name: _dataset(name, places, one, two, limits, measured.get(name)) for name, places in chosen.items()}


def _thresholds(given: dict[str, float]) -> Thresholds:
    known = asdict(Thresholds())
    for name in given:
        if name not in known:
            raise ArgumentError(f"a threshold must be one of {', '.join(known)}, got {name!r}. Correct the name.")
    return replace(Thresholds(), **given)


def _dataset(part: str, places: list[Place], one: Checkpoint, two: Checkpoint, limits: Thresholds, texts: dict[str, np.ndarray] | None) -> "xarray.Dataset":
    import xarray

    heads = max(place.heads for place in places)
    rows: dict[str, list[Any]] = {name: [] for name in ("gain", "ov", "qk", "size", "temperature", "twin", "verdict", "evidence")}
    notes: list[str] = []
    for place in places:
        mine, other = layer_of(one.head_map, place, one.weights), layer_of(two.head_map, two.head_map.places[place.index], two.weights)
        found = changes(mine, other, place.heads, limits.tied)
        for name, values in _row(found, place.heads, limits):
            rows[name].append([*values, *[_nothing(name)] * (heads - place.heads)])
        notes += [f"layer {place.layer}: {why}" for why in {mine.refusal, other.refusal} if why is not None]
    variables = {name: (("layer", "head"), np.array(values, dtype=object if name in ("verdict", "evidence") else None)) for name, values in rows.items()}
    variables |= {name: (("layer", "head"), values) for name, values in (texts or {}).items()}
    coords = {
        "layer": range(len(places)),
        "head": range(heads),
        "layer_name": ("layer", [place.module for place in places]),
        "key_heads": ("layer", [place.key_heads for place in places]),
    }
    dataset = xarray.Dataset(variables, coords, {"part": part, "base": one.name, "tuned": two.name, "notes": tuple(notes), **asdict(limits)})
    for name, meaning in MEANINGS.items():
        if name in dataset:
            dataset[name].attrs["long_name"] = meaning
    return dataset


def _row(found: Changes, heads: int, limits: Thresholds) -> Iterator[tuple[str, list[Any]]]:
    verdicts = [verdict(found, head, limits) for head in range(heads)]
    yield from ((name, getattr(found, name).tolist()) for name in ("gain", "ov", "qk", "size", "twin"))
    yield "temperature", (1 / found.size).tolist()
    yield "verdict", [word for word, _ in verdicts]
    yield "evidence", [why for _, why in verdicts]


def _nothing(name: str) -> Any:
    return "" if name in ("verdict", "evidence") else -1 if name == "twin" else float("nan")


def _on_texts(one: Checkpoint, two: Checkpoint, texts: Any, parts: list[str]) -> dict[str, dict[str, np.ndarray]]:
    from headwise.analysis.checkpoints.text_changes import measured

    return measured(opened(one), opened(two, one), texts, parts)
