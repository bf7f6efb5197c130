"""`from_attentions`: attention weights that a user has already, as a run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from headwise.attention.attend import compute, statistic_names
from headwise.axes import Float, Tensor
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.capture.eager_capture import request_from_weights
from headwise.models.layout import AttentionSite, Layout
from headwise.models.run import Run
from headwise.models.runs.activation_store import ActivationStore, StoredCall
from headwise.models.runs.places import Place
from headwise.models.runs.run_metadata import RunMetadata
from headwise.models.runs.statistics_collector import CallStatistics
from headwise.models.verification.proof import Proof
from headwise.verdict import Verdicts, WorstCase

PATTERN = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern")
NOTE = "these are weights that were given; no model was run"
REFUSAL = "only weights were given, and what a head writes needs values and W_O"


def from_attentions(
    tensors: Mapping[str, Tensor] | Sequence[Tensor], tokens: Sequence[str] | Sequence[Sequence[str]] | None = None, statistics: str | Sequence[str] = "all"
) -> Run:
    """Weights that another program made, as a run: statistics, weights, tiles, and a proof that rows add up to 1.

    Args:
        tensors: one a layer, [batch, heads, queries, keys] or [heads, queries, keys]: the `attentions` of a model of
            transformers, or a TransformerLens cache, of which the entries `blocks.N.attn.hook_pattern` are taken.
        tokens: of the queries, one list, or one a batch row; numbers when absent.
        statistics: names, or "all".

    Raises:
        ArgumentError: a row does not add up to 1: after dropout, as scores, or with tokens zeroed out they are no weights.
        ArgumentTypeError: no tensors of floats.

    Example:
        >>> found = from_attentions([torch.eye(3).expand(2, 3, 3)], ["a", "b", "c"])
        >>> found.statistics["self"][0, 0, 1].values.tolist()
        [1.0, 1.0, 1.0]
    """
    names = statistic_names(statistics)
    layers = [_layer(name, x) for name, x in _named(tensors)]
    store = ActivationStore(1 << 62)
    sites: list[AttentionSite] = []
    places: list[Place] = []
    numbers: dict[int, CallStatistics] = {}
    parts: dict[tuple[str, tuple[int, int, int]], str] = {}
    for index, (name, weights) in enumerate(layers):
        b, h, t, s = weights.shape
        request = request_from_weights(weights.flatten(0, 1), weights.new_zeros(b * h, s, 1), h)
        attended = compute(request.query, request.key, request.value, request.call, names)
        numbers[index] = CallStatistics((b, h, h, t, s), {key: x.cpu() for key, x in attended.statistics.items()}, attended.lse, None, ())
        store.put(index, StoredCall(request.query, request.key, attended.lse, request.call, None, None))
        sites.append(AttentionSite(index, name, t != s, None, REFUSAL))
        part = _part(parts, "self" if t == s else "cross", (b, t, s))
        places.append(Place(index, name, part, sum(place.part == part for place in places), t != s, b, h, h, t, s))
    words = _tokens(tokens, layers[0][1].shape)
    padding = dict.fromkeys(parts.values())
    metadata = RunMetadata(tuple(places), Layout(tuple(sites)), numbers, words, None, padding, (NOTE,))
    return GivenRun(metadata, store, forward_pass=None, outputs=None)  # pyright: ignore[reportArgumentType]


class GivenRun(Run):
    """A run of which only the weights are known."""

    @property
    def outputs(self) -> dict[str, Tensor]:
        raise ModelError("outputs must come from a model, got weights alone. Open the model and run it.")

    @property
    def proof(self) -> Proof:  # pyright: ignore[reportIncompatibleVariableOverride]
        rows = WorstCase("rows", "every row of weights adds up to 1, or to 0 where nothing is seen")
        for place in self._metadata.places:
            lse = self._stored_call(place.index).lse
            apart = (lse[lse > -torch.inf].exp() - 1).abs()
            rows.add(float(apart.max()) if apart.numel() else 0.0, _slack(lse.dtype, place.keys), f"{place.part} layer {place.layer}")
        return Proof(Verdicts([rows.verdict()]))


def _named(tensors: Any) -> list[tuple[str, Any]]:
    """Name and tensor of each layer."""
    if hasattr(tensors, "items"):
        found = sorted((int(match[1]), name) for name in tensors if (match := PATTERN.fullmatch(str(name))))
        if not found:
            raise ArgumentError(f"tensors must hold blocks.N.attn.hook_pattern, got {', '.join(map(str, list(tensors)[:3])) or 'nothing'}. Cache the patterns.")
        return [(name, tensors[name]) for _, name in found]
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence) or not tensors:
        raise ArgumentTypeError(f"tensors must be a list with a tensor for each layer, or a cache, got {type(tensors).__name__}. Put one tensor into a list.")
    return [(f"layer {i}", x) for i, x in enumerate(tensors)]


def _layer(name: str, x: Any) -> tuple[str, Float[Tensor, "B H T S"]]:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise ArgumentTypeError(f"weights must be tensors of floats, got {getattr(x, 'dtype', type(x).__name__)} in {name}.")
    if x.dim() not in (3, 4) or not x.numel():
        raise ArgumentError(f"weights must be [batch, heads, queries, keys] or [heads, queries, keys], got {list(x.shape)} in {name}. Keep every head apart.")
    weights = (x if x.dim() == 4 else x[None]).detach()
    weights = weights if weights.dtype == torch.float64 else weights.float()
    sums = weights.sum(-1)
    wrong = ~(((sums - 1).abs() <= _slack(x.dtype, x.shape[-1])) | (sums == 0)) | (weights < 0).any(-1)
    if bool(wrong.any()):
        batch, head, query = (int(i) for i in wrong.nonzero()[0])
        raise ArgumentError(
            f"rows of weights must add up to 1, got {float(sums[batch, head, query]):.4g} in {name}, head {head}, query {query}, batch row {batch}. "
            "After dropout, before the softmax, or with some tokens zeroed they are no weights: take them in eval mode, whole."
        )
    return name, weights


def _slack(dtype: torch.dtype, keys: int) -> float:
    return torch.finfo(dtype).eps * (4 + keys**0.5)


def _part(known: dict[tuple[str, tuple[int, int, int]], str], kind: str, shape: tuple[int, int, int]) -> str:
    """The part's name: self or cross; layers of another shape are parts of their own."""
    number = 1 + sum(other == kind for other, _ in known)
    return known.setdefault((kind, shape), kind if number == 1 else f"{kind}.{number}")


def _tokens(tokens: Any, shape: Sequence[int]) -> list[list[str]]:
    batch, _, queries, _ = shape
    rows = [[str(i) for i in range(queries)]] * batch if tokens is None else [list(tokens)] if isinstance(tokens[0], str) else [list(row) for row in tokens]
    if len(rows) != batch or any(len(row) != queries for row in rows):
        raise ArgumentError(f"tokens must be {queries} for each of {batch} batch rows, got {[len(row) for row in rows]}. Give one for each query.")
    return rows
