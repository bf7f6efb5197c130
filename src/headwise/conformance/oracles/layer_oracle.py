"""The reference for a layer: projections, positions and the sum over heads in NumPy, around the reference for attention."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.axes import Tensor
from headwise.conformance.answer import Answer
from headwise.conformance.conventions import OURS
from headwise.conformance.oracles.attention_oracle import as_float64, attention, query_positions

if TYPE_CHECKING:
    from headwise.conformance.conventions import Conventions
    from headwise.conformance.problems.layer_problem import LayerProblem


@lru_cache(maxsize=4096)
def layer(problem: "LayerProblem", conventions: "Conventions") -> Answer:
    """Output [B, T, M] = Σ over heads of z · w_o[head] + b_o; weights and lse of the attention inside."""
    found = attention(problem.inner_problem(), conventions)
    out = np.einsum("bhte,hem->btm", as_float64(found.output), as_float64(problem.params.w_o))
    if problem.params.b_o is not None:
        out = out + as_float64(problem.params.b_o)
    return Answer(torch.from_numpy(out), found.weights, found.lse)


def inner_tensors(problem: "LayerProblem") -> dict[str, Tensor]:
    """query, key and value of the attention inside, positions applied, and its bias where there is one."""
    parameters, x = problem.params, as_float64(problem.x)
    context = x if problem.context is None else as_float64(problem.context)
    q = _project(x, parameters.w_q, parameters.b_q)
    k = _project(context, parameters.w_k, parameters.b_k)
    v = _project(context, parameters.w_v, parameters.b_v)

    p, j = query_positions(problem, OURS), np.arange(k.shape[2])[None]
    if isinstance(problem.position, Rotary):
        q, k = rotate(q, p, problem.position), rotate(k, j, problem.position)
    found: dict[str, Tensor] = {"query": torch.from_numpy(q), "key": torch.from_numpy(k), "value": torch.from_numpy(v)}
    bias = position_bias(problem.position, j[:, None] - p[..., None], q.shape[1])
    if bias is not None:
        found["bias"] = torch.from_numpy(bias + (0.0 if problem.bias is None else as_float64(problem.bias)))
    return found


def _project(x: np.ndarray, w: Tensor, b: Tensor | None) -> np.ndarray:
    projected = np.einsum("btm,mhd->bhtd", x, as_float64(w))
    return projected if b is None else projected + as_float64(b)[:, None]


def rotate(x: np.ndarray, positions: np.ndarray, rotary: Rotary) -> np.ndarray:
    """Rotary positions: each pair of features is one complex number, multiplied by e^(i · position · base^(-2m / width))."""
    width = x.shape[-1] if rotary.width is None else rotary.width
    m = np.arange(width // 2)
    first, second = (m, m + width // 2) if rotary.pairing == "halves" else (2 * m, 2 * m + 1)
    angle = positions[..., None] * rotary.base ** (-2.0 * m / max(width, 1))
    rotated = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)[:, None]
    result = x.copy()
    result[..., first], result[..., second] = rotated.real, rotated.imag
    return result


def position_bias(position: object, distance: np.ndarray, heads: int) -> np.ndarray | None:
    """What ALiBi or T5's relative buckets add to the scores, [B, H, T, S].

    Args:
        distance: position of the key minus position of the query, [B, T, S].
    """
    if isinstance(position, Alibi):
        slopes = np.array(published_slopes(heads) if position.slopes is None else position.slopes)
        return -slopes[:, None, None] * np.abs(distance)[:, None]
    if isinstance(position, RelativeBuckets):
        return np.moveaxis(as_float64(position.table)[_bucket(distance, position)], -1, 1)
    return None


def published_slopes(heads: int) -> list[float]:
    """ALiBi's slopes as in its authors' code, for numbers of heads that are no power of two as well.

    Example:
        >>> published_slopes(3)
        [0.0625, 0.00390625, 0.25]
    """
    nearest = 2 ** int(np.log2(heads)) if heads else 0
    slopes = [2 ** (-8 * (n + 1) / nearest) for n in range(nearest)]
    between = [2 ** (-4 * (n + 1) / nearest) for n in range(0, 2 * nearest, 2)]
    return [*slopes, *between[: heads - nearest]]


def _bucket(distance: np.ndarray, buckets: RelativeBuckets) -> np.ndarray:
    """T5's bucket of each distance: small distances one by one, large ones on a logarithmic scale, each direction separately where both count."""
    count = len(buckets.table) // 2 if buckets.bidirectional else len(buckets.table)
    start = count * (distance > 0) if buckets.bidirectional else 0
    size = np.abs(distance) if buckets.bidirectional else np.maximum(-distance, 0)
    single = count // 2
    # A distance on the edge of a bucket must not fall below it by rounding.
    step = np.log(np.maximum(size, single) / single) / np.log(buckets.max_distance / single) * (count - single) + 1e-9
    return start + np.where(size < single, size, np.minimum(single + step.astype(int), count - 1))
