"""The judge of a layer: projections, positions and the sum over heads in numpy, around the oracle of attention."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.attention.position import Alibi, RelativeBuckets, Rotary
from headwise.conformance.oracles.attention_oracle import attention, numbers, place
from headwise.conformance.problems.answer import Answer
from headwise.conformance.problems.conventions import OURS
from headwise.conformance.problems.problem import Problem

if TYPE_CHECKING:
    from headwise.conformance.problems.conventions import Conventions
    from headwise.conformance.problems.layer_problem import LayerProblem


@lru_cache(maxsize=4096)
def layer(problem: "LayerProblem", conventions: "Conventions") -> Answer:
    """Output [B, T, M] = Σ over heads of z · w_o[head] + b_o; weights and lse of the attention inside."""
    found = attention(inner(problem), conventions)
    out = np.einsum("bhte,hem->btm", numbers(found.output), numbers(problem.params.w_o))
    if problem.params.b_o is not None:
        out = out + numbers(problem.params.b_o)
    return Answer(torch.from_numpy(out), found.weights, found.lse)


@lru_cache(maxsize=4096)
def inner(problem: "LayerProblem") -> Problem:
    """q, k and v of every head, positions taken in, and the call that follows."""
    params, x = problem.params, numbers(problem.x)
    answers = x if problem.context is None else numbers(problem.context)
    q = _project(x, params.w_q, params.b_q)
    k = _project(answers, params.w_k, params.b_k)
    v = _project(answers, params.w_v, params.b_v)
    named = ("causal", "query_offset", "window", "mask", "scale", "softcap", "dropout")
    bare = Problem(*map(torch.from_numpy, (q, k, v)), sink=params.sink, bias=problem.bias, **{name: getattr(problem, name) for name in named})

    p, j = place(bare, OURS), np.arange(k.shape[2])[None]
    if isinstance(problem.position, Rotary):
        turned = {"query": rotate(q, p, problem.position), "key": rotate(k, j, problem.position)}
        return bare.having(**{name: torch.from_numpy(x) for name, x in turned.items()})
    lean = leaning(problem.position, j[:, None] - p[..., None], q.shape[1])
    if lean is None:
        return bare
    return bare.having(bias=torch.from_numpy(lean + (0.0 if problem.bias is None else numbers(problem.bias))))


def _project(x: np.ndarray, w: torch.Tensor, b: torch.Tensor | None) -> np.ndarray:
    read = np.einsum("btm,mhd->bhtd", x, numbers(w))
    return read if b is None else read + numbers(b)[:, None]


def rotate(x: np.ndarray, at: np.ndarray, rotary: Rotary) -> np.ndarray:
    """Each pair of features is one complex number, turned by e^(i · position · base^(-2m / width))."""
    width = x.shape[-1] if rotary.width is None else rotary.width
    m = np.arange(width // 2)
    first, second = (m, m + width // 2) if rotary.pairing == "halves" else (2 * m, 2 * m + 1)
    angle = at[..., None] * rotary.base ** (-2.0 * m / max(width, 1))
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)[:, None]
    result = x.copy()
    result[..., first], result[..., second] = turned.real, turned.imag
    return result


def leaning(position: object, ahead: np.ndarray, heads: int) -> np.ndarray | None:
    """What ALiBi or T5's buckets add to the scores of keys that stand so far ahead, [B, H, T, S]."""
    if isinstance(position, Alibi):
        slopes = np.array(published_slopes(heads) if position.slopes is None else position.slopes)
        return -slopes[:, None, None] * np.abs(ahead)[:, None]
    if isinstance(position, RelativeBuckets):
        return np.moveaxis(numbers(position.table)[_bucket(ahead, position)], -1, 1)
    return None


def published_slopes(heads: int) -> list[float]:
    """ALiBi's slopes as its authors' code has them, also for head counts that are no power of two.

    Example:
        >>> published_slopes(3)
        [0.0625, 0.00390625, 0.25]
    """
    nearest = 2 ** int(np.log2(heads)) if heads else 0
    slopes = [2 ** (-8 * (n + 1) / nearest) for n in range(nearest)]
    between = [2 ** (-4 * (n + 1) / nearest) for n in range(0, 2 * nearest, 2)]
    return [*slopes, *between[: heads - nearest]]


def _bucket(ahead: np.ndarray, buckets: RelativeBuckets) -> np.ndarray:
    """T5: near distances one by one, far ones by the logarithm, each direction by itself where both count."""
    count = len(buckets.table) // 2 if buckets.bidirectional else len(buckets.table)
    start = count * (ahead > 0) if buckets.bidirectional else 0
    far = np.abs(ahead) if buckets.bidirectional else np.maximum(-ahead, 0)
    single = count // 2
    # A distance that lies on an edge must not fall short of it by rounding.
    step = np.log(np.maximum(far, single) / single) / np.log(buckets.max_distance / single) * (count - single) + 1e-9
    return start + np.where(far < single, far, np.minimum(single + step.astype(int), count - 1))
