"""A problem cut to the size of a module that cannot be made larger."""

from typing import Any

from headwise.conformance.adapters.pad_to_size import Sizes
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.plane_slicing import with_heads, with_keys, with_planes, with_queries, with_rows
from headwise.conformance.problems.problem import Problem


def cut_call(problem: Problem, sizes: Sizes, square: bool) -> Problem:
    """Heads, widths and texts as far as there is room for them.

    Args:
        square: as self-attention has it: no more queries than keys, and no more tokens in all than the model is wide.
    """
    if problem.query.shape[3] > sizes.width or problem.value.shape[3] > sizes.wide:
        narrow = {"query": problem.query[..., : sizes.width], "key": problem.key[..., : sizes.width], "value": problem.value[..., : sizes.wide]}
        problem = problem.having(**narrow)
    heads, groups = _heads(problem.query.shape[1], problem.key.shape[1], sizes)
    if heads != list(range(problem.query.shape[1])) or groups != list(range(problem.key.shape[1])):
        problem = with_heads(problem, heads, groups)
    return _square(problem, sizes.model) if square else problem


def _heads(heads: int, groups: int, sizes: Sizes) -> tuple[list[int], list[int]]:
    """Which heads to take, again where there are too few, so that as many share a key head as in the module."""
    ratio, wanted = max(heads // max(groups, 1), 1), sizes.heads // sizes.groups
    kept = list(range(min(groups, sizes.groups)))
    if heads == 0:
        return [], kept
    return [group * ratio + share % ratio for group in kept for share in range(wanted)], kept


def _square(problem: Problem, room: int) -> Problem:
    batch, _, queries, keys = problem.shape
    rows = min(batch, max(room // max(keys, 1), 1))
    if rows < batch:
        problem = with_rows(problem, list(range(rows)))
    kept = min(keys, room // max(rows, 1))
    if kept < keys:
        problem = with_keys(problem, list(range(kept)))
    if queries > kept:
        problem = with_queries(problem, list(range(queries - kept, queries)))
    return problem


def cut_layer(problem: LayerProblem, sizes: Sizes) -> LayerProblem:
    """Maps as far as there is room for them."""
    params = problem.params
    heads, groups = _heads(params.w_q.shape[1], params.w_k.shape[1], sizes)
    changes: dict[str, Any] = {
        "w_q": params.w_q[: sizes.model, heads, : sizes.width],
        "w_k": params.w_k[: sizes.context, groups, : sizes.width],
        "w_v": params.w_v[: sizes.context, groups, : sizes.wide],
        "w_o": params.w_o[heads, : sizes.wide, : sizes.model],
    }
    for name, which, width in (("b_q", heads, sizes.width), ("b_k", groups, sizes.width), ("b_v", groups, sizes.wide)):
        if getattr(params, name) is not None:
            changes[name] = getattr(params, name)[which, :width]
    if params.b_o is not None:
        changes["b_o"] = params.b_o[: sizes.model]
    if params.sink is not None:
        changes["sink"] = params.sink[heads]
    changes["x"] = problem.x[..., : sizes.model]
    if problem.context is not None:
        changes["context"] = problem.context[..., : sizes.context]
    return with_planes(problem, "H", heads).having(**changes)
