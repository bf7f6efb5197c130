"""The reference that implementations are compared with: attention and its gradients in NumPy and float64, written from the definition.

It shares no code with headwise. Gradients are written out by hand: with P the weights, dP = dO·Vᵀ and dS = P ∘ (dP - Σ P ∘ dP), then back through softcap,
scale and product. Tests compare them with complex-step differentiation.

Answers are cached by problem, which is compared by identity: a hundred subjects are judged on the same few problems.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.axes import Tensor
from headwise.conformance.answer import Answer

if TYPE_CHECKING:
    from headwise.conformance.conventions import Conventions
    from headwise.conformance.problems.layer_problem import AnyProblem
    from headwise.conformance.problems.problem import Problem


@lru_cache(maxsize=4096)
def attention(problem: "Problem", conventions: "Conventions", upstream: Tensor | None = None) -> Answer:
    """Output, weights, lse, and gradients where an upstream gradient is given."""
    kv_heads = kv_head_of(problem.query.shape[1], problem.key.shape[1], conventions)
    q, k, v = as_float64(problem.query), as_float64(problem.key)[:, kv_heads], as_float64(problem.value)[:, kv_heads]
    visible = visibility(problem, conventions)
    k, v, nonfinite = _without_unused_keys(k, v, visible)
    scale = q.shape[3] ** -0.5 if problem.scale is None else problem.scale

    scores, softcap_slope = _scores(q, k, visible, scale, problem, nonfinite)
    weights, lse = _softmax(scores, visible, problem)
    output = _mix(weights, v, visible, nonfinite)
    gradients = {}
    if upstream is not None:  # fully masked rows have none
        gradients = _gradients(problem, (q, k, v, kv_heads), weights, softcap_slope * scale, as_float64(upstream))
    all_values = as_float64(problem.value)[:, kv_heads]  # the mean of a fully masked row is over all values, hidden ones too
    output, weights = _fully_masked(output, weights, all_values, visible, problem, conventions)
    return Answer(torch.from_numpy(output), torch.from_numpy(weights), torch.from_numpy(lse), {name: torch.from_numpy(x) for name, x in gradients.items()})


def kv_head_of(heads: int, groups: int, conventions: "Conventions") -> np.ndarray:
    """The key/value head that each query head reads, [H]."""
    if conventions.key_heads == "in turn":
        return np.arange(heads) % max(groups, 1)
    return np.arange(heads) // max(heads // max(groups, 1), 1)


@lru_cache(maxsize=4096)
def visibility(problem: "Problem", conventions: "Conventions") -> np.ndarray:
    """True where a query may attend to a key, [B, H, T, S]: the intersection of all rules."""
    batch, heads, queries, keys = problem.shape
    p = query_positions(problem, conventions)[:, None, :, None]
    j = np.arange(keys)
    visible = np.ones((batch, heads, queries, keys), bool)
    if problem.causal:
        visible &= j <= p
    if isinstance(problem.window, int):
        visible &= j > p - problem.window
    elif problem.window is not None:
        left, right = problem.window
        visible &= (True if left is None else j >= p - left) & (True if right is None else j <= p + right)
    if problem.mask is not None:
        visible &= problem.mask.cpu().numpy()
    if problem.bias is not None:
        visible &= as_float64(problem.bias) != -np.inf
    return visible


def query_positions(problem: "AnyProblem", conventions: "Conventions") -> np.ndarray:
    """The position of each query on the axis of the keys, [B, T]."""
    batch, _, queries, keys = problem.shape
    offset = problem.query_offset
    if offset is None:
        offset = 0 if conventions.corner == "top-left" else keys - queries
    start = np.broadcast_to(np.asarray(offset.cpu() if isinstance(offset, Tensor) else offset, dtype=np.int64), (batch,))
    return start[:, None] + np.arange(queries)


def as_float64(tensor: Tensor) -> np.ndarray:
    """The exact values, in float64."""
    return tensor.detach().cpu().double().numpy()


def _without_unused_keys(k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Keys that no query may attend to are replaced by 0, so that their contents cannot matter; and whether any non-finite number is left."""
    unused = np.logical_not(visible.any(2))[..., None]
    k, v = np.where(unused, 0.0, k), np.where(unused, 0.0, v)
    return k, v, not (np.isfinite(k).all() and np.isfinite(v).all())


def _scores(q: np.ndarray, k: np.ndarray, visible: np.ndarray, scale: float, problem: "Problem", nonfinite: bool) -> tuple[np.ndarray, np.ndarray]:
    """The input of the softmax, 0 where hidden; and the derivative of the softcap."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = (q[:, :, :, None] * np.where(visible[..., None], k[:, :, None], 0.0)).sum(-1) if nonfinite else np.einsum("bhtd,bhsd->bhts", q, k)
        scores = products * scale
        slope = np.ones_like(scores)
        if problem.softcap is not None:
            capped = np.tanh(scores / problem.softcap)
            scores, slope = problem.softcap * capped, 1 - capped**2
        if problem.bias is not None:
            scores = scores + np.where(visible, as_float64(problem.bias), 0.0)
    return np.where(visible, scores, 0.0), slope


def _softmax(scores: np.ndarray, visible: np.ndarray, problem: "Problem") -> tuple[np.ndarray, np.ndarray]:
    """Weights (0 where hidden) and lse, the sink's exponential in the sum; a row of neither keys nor sink has weights 0 and lse -inf."""
    batch, heads, queries, _ = scores.shape
    sink = np.full((batch, heads, queries), -np.inf)
    if problem.sink is not None:
        sink = np.broadcast_to(as_float64(problem.sink)[:, None], sink.shape)
    largest = np.maximum(np.where(visible, scores, -np.inf).max(-1, initial=-np.inf), sink)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(invalid="ignore", divide="ignore"):
        exponentials = np.where(visible, np.exp(np.where(visible, scores - largest[..., None], 0.0)), 0.0)
        total = exponentials.sum(-1) + np.exp(sink - largest)
        weights = np.where(visible, exponentials / np.where(total == 0, 1.0, total)[..., None], 0.0)
        return weights, largest + np.log(total)


def _mix(weights: np.ndarray, v: np.ndarray, visible: np.ndarray, nonfinite: bool) -> np.ndarray:
    if not nonfinite:
        return np.einsum("bhts,bhse->bhte", weights, v)
    with np.errstate(invalid="ignore"):
        return (weights[..., None] * np.where(visible[..., None], v[:, :, None], 0.0)).sum(3)


def _fully_masked(
    output: np.ndarray, weights: np.ndarray, v: np.ndarray, visible: np.ndarray, problem: "Problem", conventions: "Conventions"
) -> tuple[np.ndarray, np.ndarray]:
    """Output and weights with fully masked rows as the convention has them; with a sink, which takes the whole weight, such a row is always 0."""
    masked = np.logical_not(visible.any(-1))[..., None]
    if problem.sink is not None or conventions.dead_row == "zero" or not masked.any():
        return output, weights
    if conventions.dead_row == "nan":
        return np.where(masked, np.nan, output), np.where(masked, np.nan, weights)
    mean = v.sum(2)[:, :, None] / max(v.shape[2], 1)
    return np.where(masked, mean, output), np.where(masked, 1 / max(visible.shape[-1], 1), weights)


def _gradients(
    problem: "Problem", tensors: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], weights: np.ndarray, slope: np.ndarray, d_output: np.ndarray
) -> dict[str, np.ndarray]:
    """The gradient of every tensor; `slope` is the derivative of a score by its product q·k."""
    q, k, v, kv_heads = tensors
    d_weights = np.einsum("bhte,bhse->bhts", d_output, v)
    row_mean = (weights * d_weights).sum(-1, keepdims=True)
    d_scores = weights * (d_weights - row_mean)
    d_products = d_scores * slope
    found = {
        "query": np.einsum("bhts,bhsd->bhtd", d_products, k),
        "key": _sum_over_group(np.einsum("bhts,bhtd->bhsd", d_products, q), kv_heads, problem.key.shape[1]),
        "value": _sum_over_group(np.einsum("bhts,bhte->bhse", weights, d_output), kv_heads, problem.value.shape[1]),
    }
    if problem.bias is not None:
        found["bias"] = _sum_over_broadcast(d_scores, tuple(problem.bias.shape))
    if problem.sink is not None:
        sink_weight = 1 - weights.sum(-1) if weights.shape[-1] else np.ones(weights.shape[:3])
        found["sink"] = (-sink_weight * row_mean[..., 0]).sum((0, 2))
    return found


def _sum_over_group(per_head: np.ndarray, kv_heads: np.ndarray, groups: int) -> np.ndarray:
    """The gradient of a key/value head: the sum over the query heads that read it."""
    summed = np.zeros((per_head.shape[0], groups, *per_head.shape[2:]))
    for head, group in enumerate(kv_heads):
        summed[:, group] += per_head[:, head]
    return summed


def _sum_over_broadcast(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of a tensor of this shape that was broadcast to [B, H, T, S]."""
    axes = tuple(n for n, length in enumerate((1,) * (4 - len(shape)) + shape) if length == 1)
    return gradient.sum(axes, keepdims=True).reshape(shape)
