"""The judge of the judge: attention in plain Python, one row and one key at a time. It shares nothing with headwise.

Everything is computed in complex numbers of 2 × 64 bits. Real inputs give real results; an input with a tiny imaginary
part gives the derivative in the imaginary part of the result, exact to the last few bits (Squire and Trapp 1998): a
finite difference without its cancellation, which `slopes` takes for each number of a tensor.
"""

import cmath
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, nan

import numpy as np

STEP = 1e-30


@dataclass(frozen=True)
class Answer:
    """Everything about one attention; arrays over batch, head, query, then whatever the last axis is."""

    output: np.ndarray
    lse: np.ndarray
    weights: np.ndarray
    seen: np.ndarray
    sink: np.ndarray
    position: np.ndarray


def attention(
    query, key, value, *, causal=False, query_offset=None, window=None, mask=None, bias=None, scale=None, softcap=None, sink=None, segments=None
) -> Answer:
    """softmax([softcap(scale · q·k) + bias, sink]) · v, over the keys that are seen. `segments` say nothing about it."""
    (batch, heads, queries, width), (_, groups, keys, _), wide = query.shape, key.shape, value.shape[-1]
    scale = width**-0.5 if scale is None else scale
    seen = visible((batch, heads, queries, keys), causal, query_offset, window, mask, bias)
    output = np.zeros((batch, heads, queries, wide), complex)
    lse = np.zeros((batch, heads, queries), complex)
    weights = np.zeros((batch, heads, queries, keys), complex)
    to_sink = np.zeros((batch, heads, queries), complex)
    for b, h, i in np.ndindex(batch, heads, queries):
        g = h // (heads // groups)
        scores = {}
        for j in range(keys):
            if seen[b, h, i, j]:
                s = scale * dot(query[b, h, i], key[b, g, j])
                s = s if softcap is None else softcap * cmath.tanh(s / softcap)
                scores[j] = s if bias is None else s + complex(np.broadcast_to(bias, seen.shape)[b, h, i, j])
        if sink is not None:
            scores["sink"] = complex(sink[h])
        lse[b, h, i] = log_sum_exp(scores.values())
        to_sink[b, h, i] = nan if not scores else 0
        for j, s in scores.items():
            share = cmath.exp(s - lse[b, h, i])
            if j == "sink":
                to_sink[b, h, i] = share
            else:
                weights[b, h, i, j] = share
                for e in range(wide):
                    output[b, h, i, e] += share * value[b, g, j, e]
    return Answer(output, lse, weights, seen, to_sink, positions(batch, queries, keys, query_offset))


def dot(a, b) -> complex:
    return sum((complex(x) * complex(y) for x, y in zip(a, b, strict=True)), 0j)


def log_sum_exp(scores) -> complex:
    scores = list(scores)
    if not scores:
        return complex(-inf)
    top = max(s.real for s in scores)
    return top + cmath.log(sum(cmath.exp(s - top) for s in scores))


def positions(batch: int, queries: int, keys: int, query_offset) -> np.ndarray:
    offset = keys - queries if query_offset is None else query_offset
    return np.broadcast_to(np.asarray(offset, dtype=np.int64), (batch,))[:, None] + np.arange(queries)


def visible(shape: tuple[int, int, int, int], causal=False, query_offset=None, window=None, mask=None, bias=None) -> np.ndarray:
    """True where a query sees a key, rule by rule as the words say it."""
    batch, _, queries, keys = shape
    place, key = positions(batch, queries, keys, query_offset), np.arange(keys)
    seen = np.ones(shape, bool)
    for b, i in np.ndindex(batch, queries):
        p = int(place[b, i])
        if causal:
            seen[b, :, i] &= key <= p
        if isinstance(window, int):
            seen[b, :, i] &= key > p - window
        if isinstance(window, tuple):
            left, right = window
            seen[b, :, i] &= True if left is None else key >= p - left
            seen[b, :, i] &= True if right is None else key <= p + right
    if mask is not None:
        seen &= mask
    if bias is not None:
        seen &= np.real(bias) != -inf
    return seen


def statistics(answer: Answer, segments=None) -> dict[str, np.ndarray]:
    """Every statistic, spelled out row by row from the weights."""
    batch, heads, queries, keys = answer.weights.shape
    names = ("entropy", "max_weight", "peak", "participation", "distance", "first", "previous", "self", "sink")
    found = {name: np.full((batch, heads, queries), nan) for name in names}
    found["received"] = answer.weights.real.sum(2)
    labels = [] if segments is None else range(max([-1, *np.ravel(segments).tolist()]) + 1)
    found["segment"] = np.full((batch, heads, queries, len(labels)), nan)
    for b, h, i in np.ndindex(batch, heads, queries):
        w = answer.weights[b, h, i].real.tolist()
        p = int(answer.position[b, i])
        alive = answer.seen[b, h, i].any()
        found["sink"][b, h, i] = answer.sink[b, h, i].real
        found["peak"][b, h, i] = max((j for j in range(keys) if answer.seen[b, h, i, j]), key=lambda j: (w[j], -j)) if alive else -1
        if not alive:
            continue
        found["entropy"][b, h, i] = -sum(x * log(x) for x in w if x > 0)
        found["max_weight"][b, h, i] = max(w)
        found["participation"][b, h, i] = 1 / sum(x * x for x in w)
        found["distance"][b, h, i] = sum(x * abs(p - j) for j, x in enumerate(w))
        found["first"][b, h, i] = w[0]
        found["previous"][b, h, i] = w[p - 1] if 0 <= p - 1 < keys else 0
        found["self"][b, h, i] = w[p] if 0 <= p < keys else 0
        for label in labels:
            found["segment"][b, h, i, label] = sum(x for j, x in enumerate(w) if segments[b][j] == label)
    return found


def slopes(loss: Callable[[np.ndarray], complex], at: np.ndarray) -> np.ndarray:
    """d loss / d each number of `at`, from a step into the imaginary direction."""
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[place] += STEP * 1j
        found[place] = loss(moved).imag / STEP
    return found
