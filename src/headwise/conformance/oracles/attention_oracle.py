"""The judge: attention and its gradient in numpy, float64, written from the definition. It shares no code with headwise.

Gradients are the textbook's, by hand: with P the weights, dP = dO·Vᵀ, dS = P ∘ (dP - Σ P ∘ dP), then back through cap,
scale and product. Tests compare them with a step into the imaginary direction.

Answers are kept by problem, which is compared by identity: a hundred subjects are judged on the same few problems.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from headwise.axes import Tensor
from headwise.conformance.problems.answer import Answer

if TYPE_CHECKING:
    from headwise.conformance.problems.conventions import Conventions
    from headwise.conformance.problems.problem import Problem


@lru_cache(maxsize=4096)
def attention(problem: "Problem", conventions: "Conventions", upstream: Tensor | None = None) -> Answer:
    """Output, weights, lse, and gradients where there is an upstream gradient."""
    reads = key_heads(problem.query.shape[1], problem.key.shape[1], conventions)
    q, k, v = numbers(problem.query), numbers(problem.key)[:, reads], numbers(problem.value)[:, reads]
    sees = seen(problem, conventions)
    k, v, strange = _present(k, v, sees)
    scale = q.shape[3] ** -0.5 if problem.scale is None else problem.scale

    scores, slope = _scores(q, k, sees, scale, problem, strange)
    weights, lse = _softmax(scores, sees, problem)
    output = _mix(weights, v, sees, strange)
    gradients = {}
    if upstream is not None:  # of the rows that see a key: others take no part
        gradients = _gradients(problem, (q, k, v, reads), weights, slope * scale, slope, numbers(upstream))
    every = numbers(problem.value)[:, reads]  # the mean is of all values, also of those that nobody sees
    output, weights = _dead(output, weights, every, sees, problem, conventions)
    return Answer(torch.from_numpy(output), torch.from_numpy(weights), torch.from_numpy(lse), {name: torch.from_numpy(x) for name, x in gradients.items()})


def key_heads(heads: int, groups: int, conventions: "Conventions") -> np.ndarray:
    """The key head that each query head reads."""
    if conventions.key_heads == "in turn":
        return np.arange(heads) % max(groups, 1)
    return np.arange(heads) // max(heads // max(groups, 1), 1)


@lru_cache(maxsize=4096)
def seen(problem: "Problem", conventions: "Conventions") -> np.ndarray:
    """True where a query sees a key, each rule as its words say."""
    batch, heads, queries, keys = problem.shape
    p = place(problem, conventions)[:, None, :, None]
    j = np.arange(keys)
    sees = np.ones((batch, heads, queries, keys), bool)
    if problem.causal:
        sees &= j <= p
    if isinstance(problem.window, int):
        sees &= j > p - problem.window
    elif problem.window is not None:
        left, right = problem.window
        sees &= (True if left is None else j >= p - left) & (True if right is None else j <= p + right)
    if problem.mask is not None:
        sees &= problem.mask.cpu().numpy()
    if problem.bias is not None:
        sees &= numbers(problem.bias) != -np.inf
    return sees


def place(problem: "Problem", conventions: "Conventions") -> np.ndarray:
    """Where each query stands among the keys, [B, T]."""
    batch, _, queries, keys = problem.shape
    offset = problem.query_offset
    if offset is None:
        offset = 0 if conventions.corner == "top-left" else keys - queries
    start = np.broadcast_to(np.asarray(offset.cpu() if isinstance(offset, Tensor) else offset, dtype=np.int64), (batch,))
    return start[:, None] + np.arange(queries)


def numbers(tensor: Tensor) -> np.ndarray:
    """The exact values, in float64."""
    return tensor.detach().cpu().double().numpy()


def _present(k: np.ndarray, v: np.ndarray, sees: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Keys that no query sees are taken for 0, so that what they hold cannot matter; and whether strange numbers are left."""
    gone = ~sees.any(2)[..., None]
    k, v = np.where(gone, 0.0, k), np.where(gone, 0.0, v)
    return k, v, not (np.isfinite(k).all() and np.isfinite(v).all())


def _scores(q: np.ndarray, k: np.ndarray, sees: np.ndarray, scale: float, problem: "Problem", strange: bool) -> tuple[np.ndarray, np.ndarray]:
    """What the softmax sees, 0 where hidden; and the slope of the cap."""
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = (q[:, :, :, None] * np.where(sees[..., None], k[:, :, None], 0.0)).sum(-1) if strange else np.einsum("bhtd,bhsd->bhts", q, k)
        raw = pairs * scale
        slope = np.ones_like(raw)
        if problem.softcap is not None:
            bent = np.tanh(raw / problem.softcap)
            raw, slope = problem.softcap * bent, 1 - bent**2
        if problem.bias is not None:
            raw = raw + np.where(sees, numbers(problem.bias), 0.0)
    return np.where(sees, raw, 0.0), slope


def _softmax(scores: np.ndarray, sees: np.ndarray, problem: "Problem") -> tuple[np.ndarray, np.ndarray]:
    """Weights (0 where hidden) and lse, with the sink's mass in the sum; a row without anything has weights 0 and lse -inf."""
    batch, heads, queries, _ = scores.shape
    logit = np.full((batch, heads, queries), -np.inf)
    if problem.sink is not None:
        logit = np.broadcast_to(numbers(problem.sink)[:, None], logit.shape)
    top = np.maximum(np.where(sees, scores, -np.inf).max(-1, initial=-np.inf), logit)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(invalid="ignore", divide="ignore"):
        mass = np.where(sees, np.exp(np.where(sees, scores - top[..., None], 0.0)), 0.0)
        total = mass.sum(-1) + np.exp(logit - top)
        weights = np.where(sees, mass / np.where(total == 0, 1.0, total)[..., None], 0.0)
        return weights, top + np.log(total)


def _mix(weights: np.ndarray, v: np.ndarray, sees: np.ndarray, strange: bool) -> np.ndarray:
    if not strange:
        return np.einsum("bhts,bhse->bhte", weights, v)
    with np.errstate(invalid="ignore"):
        return (weights[..., None] * np.where(sees[..., None], v[:, :, None], 0.0)).sum(3)


def _dead(output: np.ndarray, weights: np.ndarray, v: np.ndarray, sees: np.ndarray, problem: "Problem", conventions: "Conventions") -> tuple:
    """Rows that see no key, as the convention has them. A sink takes all of such a row: then it is 0 for everybody."""
    dead = ~sees.any(-1)[..., None]
    if problem.sink is not None or conventions.dead_row == "zero" or not dead.any():
        return output, weights
    if conventions.dead_row == "nan":
        return np.where(dead, np.nan, output), np.where(dead, np.nan, weights)
    mean = v.sum(2)[:, :, None] / max(v.shape[2], 1)
    return np.where(dead, mean, output), np.where(dead, 1 / max(sees.shape[-1], 1), weights)


def _gradients(problem: "Problem", tensors: tuple, weights: np.ndarray, steep: np.ndarray, slope: np.ndarray, d_output: np.ndarray) -> dict[str, np.ndarray]:
    q, k, v, reads = tensors
    d_weights = np.einsum("bhte,bhse->bhts", d_output, v)
    pulled = (weights * d_weights).sum(-1, keepdims=True)
    d_scores = weights * (d_weights - pulled)
    d_raw = d_scores * steep
    found = {
        "query": np.einsum("bhts,bhsd->bhtd", d_raw, k),
        "key": _back(np.einsum("bhts,bhtd->bhsd", d_raw, q), reads, problem.key.shape[1]),
        "value": _back(np.einsum("bhts,bhte->bhse", weights, d_output), reads, problem.value.shape[1]),
    }
    if problem.bias is not None:
        found["bias"] = _narrow(d_scores, tuple(problem.bias.shape))
    if problem.sink is not None:
        spared = 1 - weights.sum(-1) if weights.shape[-1] else np.ones(weights.shape[:3])
        found["sink"] = (-spared * pulled[..., 0]).sum((0, 2))
    return found


def _back(each: np.ndarray, reads: np.ndarray, groups: int) -> np.ndarray:
    """A key head is pulled by every query head that reads it."""
    whole = np.zeros((each.shape[0], groups, *each.shape[2:]))
    for head, group in enumerate(reads):
        whole[:, group] += each[:, head]
    return whole


def _narrow(whole: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of something that was broadcast: summed over the axes along which it was."""
    axes = tuple(n for n, have in enumerate((1,) * (4 - len(shape)) + shape) if have == 1)
    return whole.sum(axes, keepdims=True).reshape(shape)
