"""A problem reduced, or enlarged, to the sizes of a module that cannot be made larger."""

from typing import Any

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.sizing.pad_to_size import Sizes
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.plane_slicing import with_heads, with_keys, with_planes, with_queries, with_rows
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.random_tensors import random_normal


def cut_call(problem: Problem, sizes: Sizes, square: bool) -> Problem:
    """The problem with no more heads, features and tokens than the module takes.

    Args:
        square: the module computes self-attention: no more queries than keys, and no more tokens in all than the model is wide.
    """
    if problem.query.shape[3] > sizes.head_dim or problem.value.shape[3] > sizes.value_dim:
        narrow = {"query": problem.query[..., : sizes.head_dim], "key": problem.key[..., : sizes.head_dim], "value": problem.value[..., : sizes.value_dim]}
        problem = problem.replace(**narrow)
    heads, groups = _heads(problem.query.shape[1], problem.key.shape[1], sizes)
    if heads != list(range(problem.query.shape[1])) or groups != list(range(problem.key.shape[1])):
        problem = with_heads(problem, heads, groups)
    return _square(problem, sizes.d_model) if square else problem


def _heads(heads: int, groups: int, sizes: Sizes) -> tuple[list[int], list[int]]:
    """Which heads to take, with repetition where there are too few, so that as many share a key/value head as in the module."""
    ratio, wanted = max(heads // max(groups, 1), 1), sizes.num_heads // sizes.num_kv_heads
    kept = list(range(min(groups, sizes.num_kv_heads)))
    if heads == 0:
        return [], kept
    return [group * ratio + share % ratio for group in kept for share in range(wanted)], kept


def _square(problem: Problem, most_tokens: int) -> Problem:
    batch, _, queries, keys = problem.shape
    rows = min(batch, max(most_tokens // max(keys, 1), 1))
    if rows < batch:
        problem = with_rows(problem, list(range(rows)))
    kept = min(keys, most_tokens // max(rows, 1))
    if kept < keys:
        problem = with_keys(problem, list(range(kept)))
    if queries > kept:
        problem = with_queries(problem, list(range(queries - kept, queries)))
    return problem


def cut_layer(problem: LayerProblem, sizes: Sizes) -> LayerProblem:
    """The problem with no more heads and features than the module has."""
    params = problem.params
    heads, groups = _heads(params.w_q.shape[1], params.w_k.shape[1], sizes)
    changes: dict[str, Any] = {
        "w_q": params.w_q[: sizes.d_model, heads, : sizes.head_dim],
        "w_k": params.w_k[: sizes.d_context, groups, : sizes.head_dim],
        "w_v": params.w_v[: sizes.d_context, groups, : sizes.value_dim],
        "w_o": params.w_o[heads, : sizes.value_dim, : sizes.d_model],
    }
    for name, which, width in (("b_q", heads, sizes.head_dim), ("b_k", groups, sizes.head_dim), ("b_v", groups, sizes.value_dim)):
        if getattr(params, name) is not None:
            changes[name] = getattr(params, name)[which, :width]
    if params.b_o is not None:
        changes["b_o"] = params.b_o[: sizes.d_model]
    if params.sink is not None:
        changes["sink"] = params.sink[heads]
    changes["x"] = problem.x[..., : sizes.d_model]
    if problem.context is not None:
        changes["context"] = problem.context[..., : sizes.d_context]
    return with_planes(problem, "H", heads).replace(**changes)


def resize_layer(problem: LayerProblem, sizes: Sizes) -> LayerProblem:
    """The problem at exactly the sizes of the module: cut where it is larger, and random numbers added where it is smaller."""
    cut = cut_layer(problem, sizes)
    m, c, h, g, d, e = sizes.d_model, sizes.d_context, sizes.num_heads, sizes.num_kv_heads, sizes.head_dim, sizes.value_dim
    shapes = {"w_q": (m, h, d), "w_k": (c, g, d), "w_v": (c, g, e), "w_o": (h, e, m), "b_q": (h, d), "b_k": (g, d), "b_v": (g, e), "b_o": (m,), "sink": (h,)}
    params: dict[str, Any] = {name: _enlarged(getattr(cut.params, name), shape, n) for n, (name, shape) in enumerate(shapes.items())}
    heads = [head % cut.params.w_q.shape[1] for head in range(h)]
    context = None if cut.context is None else _enlarged(cut.context, (*cut.context.shape[:2], c), 90)
    changes = {"x": _enlarged(cut.x, (*cut.x.shape[:2], m), 91), "context": context, "params": LayerParams(**params)}
    return with_planes(cut, "H", heads).replace(**changes)


def _enlarged(x: Tensor | None, shape: tuple[int, ...], seed: int) -> Tensor | None:
    """Random numbers of this shape whose first ones are those of `x`."""
    if x is None or tuple(x.shape) == shape:
        return x
    enlarged = (random_normal(*shape, seed=200 + seed) * 0.7).to(x)
    enlarged[tuple(slice(0, length) for length in x.shape)] = x
    return enlarged
