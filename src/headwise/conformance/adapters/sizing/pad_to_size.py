"""A problem embedded in a larger module: more heads, wider heads, a wider model, all padded with zeros that do not change the result."""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported


@dataclass(frozen=True)
class Sizes:
    """The axes of a module: M, C (the width of the context), H, G, D and E."""

    d_model: int
    d_context: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int

    def fits(self, num_heads: int, num_kv_heads: int, head_dim: int, value_dim: int) -> bool:
        """Whether a problem of these sizes can be embedded."""
        same_groups = num_heads * self.num_kv_heads == num_kv_heads * self.num_heads
        return num_heads <= self.num_heads and head_dim <= self.head_dim and value_dim <= self.value_dim and same_groups

    def __str__(self) -> str:
        heads = f"{self.num_heads} heads of width {self.head_dim}"
        return heads if self.num_kv_heads == self.num_heads else f"{heads} and {self.num_kv_heads} key/value heads"


def zero_padded(x: Tensor, lengths: dict[int, int]) -> Tensor:
    """Zeros appended up to these lengths of these axes, which are counted from the end: -1 is the last."""
    for axis, length in lengths.items():
        missing = length - x.shape[axis]
        if missing:
            x = pad(x, [0, 0] * (-axis - 1) + [0, missing])
    return x


def plane_padded(plane: Tensor | None, heads: int, sizes: Sizes) -> Tensor | None:
    """A mask or bias with rows for the heads that were added, where it differs by head. Nothing is hidden from an added head."""
    if plane is None or plane.dim() < 3 or plane.shape[-3] != heads or heads == sizes.num_heads:
        return plane
    added = (*plane.shape[:-3], sizes.num_heads - heads, *plane.shape[-2:])
    return torch.cat([plane, plane.new_ones(added) if plane.dtype == torch.bool else plane.new_zeros(added)], -3)


def pad_call(problem: Problem, sizes: Sizes) -> Problem:
    """The same attention with more and wider heads; its result is in the first of them.

    Raises:
        NotSupported: it does not fit.
    """
    heads, groups, head_dim, value_dim = problem.query.shape[1], problem.key.shape[1], problem.query.shape[3], problem.value.shape[3]
    if not sizes.fits(heads, groups, head_dim, value_dim):
        raise NotSupported(f"The module has {sizes}.")
    query = problem.query * _scale_correction(problem, head_dim, sizes)
    return problem.replace(
        query=zero_padded(query, {-1: sizes.head_dim, -3: sizes.num_heads}),
        key=zero_padded(problem.key, {-1: sizes.head_dim, -3: sizes.num_kv_heads}),
        value=zero_padded(problem.value, {-1: sizes.value_dim, -3: sizes.num_kv_heads}),
        mask=plane_padded(problem.mask, heads, sizes),
        bias=plane_padded(problem.bias, heads, sizes),
        sink=_padded_or_none(problem.sink, {-1: sizes.num_heads}),
    )


def _scale_correction(problem: Problem | LayerProblem, head_dim: int, sizes: Sizes) -> float:
    """What queries are multiplied by so that wider heads, whose default scale is smaller, give the same scores."""
    return 1.0 if problem.scale is not None or head_dim == sizes.head_dim else (sizes.head_dim / head_dim) ** 0.5


def pad_layer(problem: LayerProblem, sizes: Sizes) -> LayerProblem:
    """The same layer embedded in a larger one; its output is in the first M numbers.

    Raises:
        NotSupported: it does not fit.
    """
    params = problem.params
    (d_model, heads, head_dim), (d_context, groups, _), value_dim = params.w_q.shape, params.w_k.shape, params.w_v.shape[2]
    if not sizes.fits(heads, groups, head_dim, value_dim) or d_model > sizes.d_model or d_context > sizes.d_context:
        raise NotSupported(f"The module is {sizes.d_model} wide and has {sizes}.")
    factor = _scale_correction(problem, head_dim, sizes)
    w_q, b_q = (params.w_q, params.b_q) if factor == 1 else (params.w_q * factor, None if params.b_q is None else params.b_q * factor)
    padded = LayerParams(
        w_q=zero_padded(w_q, {-1: sizes.head_dim, -2: sizes.num_heads, -3: sizes.d_model}),
        w_k=zero_padded(params.w_k, {-1: sizes.head_dim, -2: sizes.num_kv_heads, -3: sizes.d_context}),
        w_v=zero_padded(params.w_v, {-1: sizes.value_dim, -2: sizes.num_kv_heads, -3: sizes.d_context}),
        w_o=zero_padded(params.w_o, {-1: sizes.d_model, -2: sizes.value_dim, -3: sizes.num_heads}),
        b_q=_padded_or_none(b_q, {-1: sizes.head_dim, -2: sizes.num_heads}),
        b_k=_padded_or_none(params.b_k, {-1: sizes.head_dim, -2: sizes.num_kv_heads}),
        b_v=_padded_or_none(params.b_v, {-1: sizes.value_dim, -2: sizes.num_kv_heads}),
        b_o=_padded_or_none(params.b_o, {-1: sizes.d_model}),
        sink=_padded_or_none(params.sink, {-1: sizes.num_heads}),
    )
    return LayerProblem(
        zero_padded(problem.x, {-1: sizes.d_model}),
        padded,
        _padded_or_none(problem.context, {-1: sizes.d_context}),
        mask=plane_padded(problem.mask, heads, sizes),
        bias=plane_padded(problem.bias, heads, sizes),
        **{name: value for name, value in problem.options.items() if name not in ("context", "mask", "bias")},
    )


def _padded_or_none(x: Tensor | None, lengths: dict[int, int]) -> Tensor | None:
    return None if x is None else zero_padded(x, lengths)
