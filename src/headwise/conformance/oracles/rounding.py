"""How far a right attention may be off: first-order rounding analysis of one problem, from its own float64 numbers.

Taken to the letter for an attention that rounds to the dtype of its input after every step; one that works in a wider
dtype has room to spare. Sums of n terms lose 4·√n·u (Higham and Mary 2019), never more than n·u. With A = |scale| Σ|q||k|
a score is off by e, a weight by the relative error r:

    e = u·(width·A + 8·|s|)    r = e + its mean over the row + u·(4·|s - max| + 8 + √keys)
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from headwise.axes import Float, Tensor
from headwise.conformance.oracles.attention_oracle import key_heads, numbers
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem


@dataclass(frozen=True, eq=False)
class Allowed:
    """By how much each number may be off."""

    output: Float[Tensor, "..."]
    weights: Float[Tensor, "B H T S"]
    lse: Float[Tensor, "B H T"]


@dataclass(frozen=True, eq=False)
class Off:
    """By how much q, k and v themselves are off, where a layer made them."""

    query: np.ndarray | float = 0.0
    key: np.ndarray | float = 0.0
    value: np.ndarray | float = 0.0


EXACT = Off()


@lru_cache(maxsize=4096)
def allowed(problem: Problem | LayerProblem, conventions: Conventions) -> Allowed:
    """The bounds of a problem, by its dtype."""
    with np.errstate(all="ignore"):
        if isinstance(problem, LayerProblem):
            return _layer(problem, conventions)
        off = _call(problem, conventions, roundoff(problem.query.dtype))
    return Allowed(*_bounds(problem.query.dtype, off.output, off.weights, off.lse))


@lru_cache(maxsize=1024)
def allowed_gradients(problem: Problem, upstream: Tensor, conventions: Conventions) -> dict[str, Tensor]:
    """The bounds of the gradients of a call: the textbook's products, with errors in place of numbers."""
    with np.errstate(all="ignore"):
        u, reads = roundoff(problem.query.dtype), key_heads(problem.query.shape[1], problem.key.shape[1], conventions)
        slips, d_out = _call(problem, conventions, u), np.abs(numbers(upstream))
        q, k, v = (np.abs(numbers(x)) for x in (problem.query, problem.key, problem.value))
        k, v, w = k[:, reads], v[:, reads], _finite(numbers(problem.right(conventions).weights))
        scale = abs(q.shape[3] ** -0.5 if problem.scale is None else problem.scale)
        pull = np.einsum("bhte,bhse->bhts", d_out, v)
        mean = (w * pull).sum(-1, keepdims=True)
        steep = w * (pull + mean)
        relative = (
            slips.relative + (w * slips.relative).sum(-1, keepdims=True) + u * (lose(v.shape[3]) + lose(k.shape[2]) + lose(q.shape[2]) + lose(q.shape[3]) + 16)
        )
        off = steep * (relative + (0 if problem.softcap is None else 2 * slips.score / problem.softcap + 8 * u))
        found = {
            "query": scale * np.einsum("bhts,bhsd->bhtd", off, k),
            "key": scale * _gather(np.einsum("bhts,bhtd->bhsd", off, q), reads, problem.key.shape[1]),
            "value": _gather(np.einsum("bhts,bhte->bhse", w * relative, d_out), reads, problem.key.shape[1]),
        }
        if problem.bias is not None:
            axes = tuple(n for n, have in enumerate((1,) * (4 - problem.bias.dim()) + tuple(problem.bias.shape)) if have == 1)
            found["bias"] = off.sum(axes, keepdims=True).reshape(tuple(problem.bias.shape))
        if problem.sink is not None:
            found["sink"] = ((mean * (slips.mean + relative.max(-1, keepdims=True, initial=0.0)))[..., 0]).sum((0, 2))
        return dict(zip(found, _bounds(problem.query.dtype, *found.values()), strict=True))


def _gather(each: np.ndarray, reads: np.ndarray, groups: int) -> np.ndarray:
    return np.stack([each[:, reads == group].sum(1) for group in range(groups)], 1) if groups else each


def _bounds(dtype: torch.dtype, *found: np.ndarray) -> list[Tensor]:
    return [torch.from_numpy(_finite(2 * x, posinf=0.0) + dust(dtype)) for x in found]


@dataclass(frozen=True, eq=False)
class _Slips:
    """By how much scores and weights of each pair are off, and what follows."""

    score: np.ndarray
    relative: np.ndarray  # of a weight
    mean: np.ndarray  # of a row
    weights: np.ndarray
    output: np.ndarray
    lse: np.ndarray


def _call(problem: Problem, conventions: Conventions, u: float, off: Off = EXACT) -> _Slips:
    reads = key_heads(problem.query.shape[1], problem.key.shape[1], conventions)
    q, k, v = (np.abs(_finite(numbers(x))) for x in (problem.query, problem.key, problem.value))
    k, v = k[:, reads], v[:, reads]
    d_k, d_v = (x[:, reads] if isinstance(x, np.ndarray) else np.zeros_like(y) for x, y in ((off.key, k), (off.value, v)))
    right, sees = problem.right(conventions), problem.seen(conventions).numpy()
    weights, lse = _finite(numbers(right.weights)), np.abs(_finite(numbers(right.lse), neginf=0.0))
    keys, width = k.shape[2], q.shape[3]
    scale = abs(width**-0.5 if problem.scale is None else problem.scale)

    e = u * (lose(width) + 8) * scale * np.einsum("bhtd,bhsd->bhts", q, k)
    e = e + scale * (np.einsum("bhtd,bhsd->bhts", np.broadcast_to(off.query, q.shape), k) + np.einsum("bhtd,bhsd->bhts", q, d_k))
    if problem.bias is not None:
        e = e + 4 * u * np.abs(np.where(sees, np.broadcast_to(numbers(problem.bias), sees.shape), 0.0))
    away = np.where(weights > 0, -np.log(np.maximum(weights, 1e-300)), 0.0)
    sink = 0.0 if problem.sink is None else 2 * u * np.abs(numbers(problem.sink))[:, None, None]
    r = np.where(sees, e + u * (4 * away + 8), 0.0)
    mean = (weights * r).sum(-1, keepdims=True) + sink + u * (lose(keys + 1) + 4)
    r = r + mean

    slip = weights * r + u * weights
    output = np.einsum("bhts,bhse->bhte", slip + u * (lose(keys) + 4) * weights, v) + np.einsum("bhts,bhse->bhte", weights, d_v)
    output = output + u * np.abs(_finite(numbers(right.output)))
    return _Slips(e, r, mean, slip, output, mean[..., 0] + 4 * u * lse)


def _layer(problem: LayerProblem, conventions: Conventions) -> Allowed:
    u, params, inner = roundoff(problem.x.dtype), problem.params, problem.inner()
    x = np.abs(numbers(problem.x))
    answers = x if problem.context is None else np.abs(numbers(problem.context))
    maps = {"query": (x, params.w_q), "key": (answers, params.w_k), "value": (answers, params.w_v)}
    read = {name: np.einsum("btm,mhd->bhtd", y, np.abs(numbers(w))) for name, (y, w) in maps.items()}
    loss = {name: u * (lose(answers.shape[-1]) + 8) * y for name, y in read.items()}
    # A turn mixes the errors of a pair of features.
    pairs = {name: y + y.max(-1, keepdims=True, initial=0.0) for name, y in loss.items()}
    slips = _call(inner, conventions, u, Off(pairs["query"], pairs["key"], loss["value"]))
    w_o, said = np.abs(numbers(params.w_o)), np.abs(_finite(numbers(inner.right(conventions).output)))
    width = w_o.shape[0] * w_o.shape[1]
    out = np.einsum("bhte,hem->btm", slips.output + u * (lose(width) + 8) * said, w_o)
    if params.b_o is not None:
        out = out + 2 * u * np.abs(numbers(params.b_o))
    return Allowed(*_bounds(problem.x.dtype, out, slips.weights, slips.lse))


def _finite(x: np.ndarray, **instead: float) -> np.ndarray:
    """`np.nan_to_num`, which takes ten times as long where there is nothing to do."""
    return x if np.isfinite(x).all() else np.nan_to_num(x, **instead)


def roundoff(dtype: torch.dtype) -> float:
    """Half the spacing of the numbers at 1."""
    return torch.finfo(dtype).eps / 2


def lose(n: int) -> float:
    """How many u a sum of n terms loses, relative to the sum of their sizes."""
    return min(float(n), 4 * n**0.5)


def dust(dtype: torch.dtype) -> float:
    """What vanishes next to 0: a few of the smallest numbers of a dtype."""
    return 4 * torch.finfo(dtype).tiny
