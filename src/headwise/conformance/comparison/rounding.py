"""The error that rounding explains: a first-order analysis of one problem, from its own float64 numbers.

It assumes an implementation that rounds to the dtype of its input after every step; one that computes in a wider dtype stays well below. The error of a sum of
n terms is taken as 4·√n·u (Higham and Mary 2019), and never more than n·u, where u is the unit roundoff. With A = |scale| Σ |q||k|, the error e of a score and
the relative error r of a weight are

    e = u·(D·A + 8·|s|)    r = e + its mean over the row + u·(4·|s - max| + 8 + √S)
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from headwise.axes import Float, Tensor
from headwise.conformance.conventions import Conventions
from headwise.conformance.oracles.attention_oracle import as_float64, kv_head_of
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem


@dataclass(frozen=True, eq=False)
class Tolerances:
    """The largest error of each number that rounding explains."""

    output: Float[Tensor, "..."]
    weights: Float[Tensor, "B H T S"]
    lse: Float[Tensor, "B H T"]


@dataclass(frozen=True, eq=False)
class InputErrors:
    """The errors that q, k and v already carry, where a layer projects them."""

    query: np.ndarray | float = 0.0
    key: np.ndarray | float = 0.0
    value: np.ndarray | float = 0.0


EXACT_INPUTS = InputErrors()


@lru_cache(maxsize=4096)
def tolerances(problem: AnyProblem, conventions: Conventions) -> Tolerances:
    """The tolerances of a problem, by its dtype."""
    with np.errstate(all="ignore"):
        if isinstance(problem, LayerProblem):
            return _layer(problem, conventions)
        errors = _call(problem, conventions, roundoff(problem.dtype))
    return Tolerances(*_bounds(problem.dtype, errors.output, errors.weights, errors.lse))


@lru_cache(maxsize=1024)
def gradient_tolerances(problem: Problem, upstream: Tensor, conventions: Conventions) -> dict[str, Tensor]:
    """The tolerances of the gradients: the products of the backward pass, with errors in place of numbers."""
    with np.errstate(all="ignore"):
        u, kv_heads = roundoff(problem.dtype), kv_head_of(problem.query.shape[1], problem.key.shape[1], conventions)
        errors, d_out = _call(problem, conventions, u), np.abs(as_float64(upstream))
        q, k, v = (np.abs(as_float64(x)) for x in (problem.query, problem.key, problem.value))
        k, v, w = k[:, kv_heads], v[:, kv_heads], _finite(_expected_weights(problem, conventions))
        scale = abs(q.shape[3] ** -0.5 if problem.scale is None else problem.scale)
        d_weights = np.einsum("bhte,bhse->bhts", d_out, v)
        mean = (w * d_weights).sum(-1, keepdims=True)
        d_scores = w * (d_weights + mean)
        relative = (
            errors.relative
            + (w * errors.relative).sum(-1, keepdims=True)
            + u * (sum_loss(v.shape[3]) + sum_loss(k.shape[2]) + sum_loss(q.shape[2]) + sum_loss(q.shape[3]) + 16)
        )
        d_errors = d_scores * (relative + (0 if problem.softcap is None else 2 * errors.score / problem.softcap + 8 * u))
        found = {
            "query": scale * np.einsum("bhts,bhsd->bhtd", d_errors, k),
            "key": scale * _sum_over_group(np.einsum("bhts,bhtd->bhsd", d_errors, q), kv_heads, problem.key.shape[1]),
            "value": _sum_over_group(np.einsum("bhts,bhte->bhse", w * relative, d_out), kv_heads, problem.key.shape[1]),
        }
        if problem.bias is not None:
            axes = tuple(n for n, length in enumerate((1,) * (4 - problem.bias.dim()) + tuple(problem.bias.shape)) if length == 1)
            found["bias"] = d_errors.sum(axes, keepdims=True).reshape(tuple(problem.bias.shape))
        if problem.sink is not None:
            found["sink"] = ((mean * (errors.mean + relative.max(-1, keepdims=True, initial=0.0)))[..., 0]).sum((0, 2))
        return dict(zip(found, _bounds(problem.dtype, *found.values()), strict=True))


def _expected_weights(problem: Problem, conventions: Conventions) -> np.ndarray:
    weights = problem.expected(conventions).weights
    return np.zeros(problem.shape) if weights is None else as_float64(weights)


def _sum_over_group(per_head: np.ndarray, kv_heads: np.ndarray, groups: int) -> np.ndarray:
    return np.stack([per_head[:, kv_heads == group].sum(1) for group in range(groups)], 1) if groups else per_head


def _bounds(dtype: torch.dtype, *found: np.ndarray) -> list[Tensor]:
    return [torch.from_numpy(_finite(2 * x, posinf=0.0) + smallest_normals(dtype)) for x in found]


@dataclass(frozen=True, eq=False)
class _Errors:
    """The errors of one call."""

    score: np.ndarray
    relative: np.ndarray  # of a weight, relative to it
    mean: np.ndarray  # of the relative error over a row
    weights: np.ndarray
    output: np.ndarray
    lse: np.ndarray


def _call(problem: Problem, conventions: Conventions, u: float, inputs: InputErrors = EXACT_INPUTS) -> _Errors:
    kv_heads = kv_head_of(problem.query.shape[1], problem.key.shape[1], conventions)
    q, k, v = (np.abs(_finite(as_float64(x))) for x in (problem.query, problem.key, problem.value))
    k, v = k[:, kv_heads], v[:, kv_heads]
    d_k, d_v = (x[:, kv_heads] if isinstance(x, np.ndarray) else np.zeros_like(y) for x, y in ((inputs.key, k), (inputs.value, v)))
    expected, visible = problem.expected(conventions), problem.visible(conventions).numpy()
    weights = _finite(_expected_weights(problem, conventions))
    lse = 0.0 if expected.lse is None else np.abs(_finite(as_float64(expected.lse), neginf=0.0))
    keys, width = k.shape[2], q.shape[3]
    scale = abs(width**-0.5 if problem.scale is None else problem.scale)

    e = u * (sum_loss(width) + 8) * scale * np.einsum("bhtd,bhsd->bhts", q, k)
    e = e + scale * (np.einsum("bhtd,bhsd->bhts", np.broadcast_to(inputs.query, q.shape), k) + np.einsum("bhtd,bhsd->bhts", q, d_k))
    if problem.bias is not None:
        e = e + 4 * u * np.abs(np.where(visible, np.broadcast_to(as_float64(problem.bias), visible.shape), 0.0))
    below_max = np.where(weights > 0, -np.log(np.maximum(weights, 1e-300)), 0.0)
    sink = 0.0 if problem.sink is None else 2 * u * np.abs(as_float64(problem.sink))[:, None, None]
    r = np.where(visible, e + u * (4 * below_max + 8), 0.0)
    mean = (weights * r).sum(-1, keepdims=True) + sink + u * (sum_loss(keys + 1) + 4)
    r = r + mean

    of_weights = weights * r + u * weights
    output = np.einsum("bhts,bhse->bhte", of_weights + u * (sum_loss(keys) + 4) * weights, v) + np.einsum("bhts,bhse->bhte", weights, d_v)
    output = output + u * np.abs(_finite(as_float64(expected.output)))
    return _Errors(e, r, mean, of_weights, output, mean[..., 0] + 4 * u * lse)


def _layer(problem: LayerProblem, conventions: Conventions) -> Tolerances:
    u, parameters, inner = roundoff(problem.dtype), problem.params, problem.inner_problem()
    x = np.abs(as_float64(problem.x))
    context = x if problem.context is None else np.abs(as_float64(problem.context))
    inputs = {"query": (x, parameters.w_q), "key": (context, parameters.w_k), "value": (context, parameters.w_v)}
    projected = {name: np.einsum("btm,mhd->bhtd", y, np.abs(as_float64(w))) for name, (y, w) in inputs.items()}
    errors = {name: u * (sum_loss(context.shape[-1]) + 8) * y for name, y in projected.items()}
    # A rotation mixes the errors of a pair of features.
    rotated = {name: y + y.max(-1, keepdims=True, initial=0.0) for name, y in errors.items()}
    inner_errors = _call(inner, conventions, u, InputErrors(rotated["query"], rotated["key"], errors["value"]))
    w_o, z = np.abs(as_float64(parameters.w_o)), np.abs(_finite(as_float64(inner.expected(conventions).output)))
    width = w_o.shape[0] * w_o.shape[1]
    out = np.einsum("bhte,hem->btm", inner_errors.output + u * (sum_loss(width) + 8) * z, w_o)
    if parameters.b_o is not None:
        out = out + 2 * u * np.abs(as_float64(parameters.b_o))
    return Tolerances(*_bounds(problem.dtype, out, inner_errors.weights, inner_errors.lse))


def _finite(x: np.ndarray, posinf: float | None = None, neginf: float | None = None) -> np.ndarray:
    """`np.nan_to_num`, skipped where every number is finite already: it takes ten times as long as the test."""
    return x if np.isfinite(x).all() else np.nan_to_num(x, posinf=posinf, neginf=neginf)


def roundoff(dtype: torch.dtype) -> float:
    """The unit roundoff: half the spacing of the numbers at 1."""
    return torch.finfo(dtype).eps / 2


def sum_loss(n: int) -> float:
    """The error of a sum of n terms in units of u, relative to the sum of their absolute values."""
    return min(float(n), 4 * n**0.5)


def smallest_normals(dtype: torch.dtype) -> float:
    """The absolute error that is always allowed: a few of the smallest normal numbers of a dtype."""
    return 4 * torch.finfo(dtype).tiny
