"""A problem put into a module that is larger: more heads, wider ones, a wider model, all filled up with zeros that change nothing."""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from headwise.attention.layer import LayerParams
from headwise.axes import Tensor
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem


@dataclass(frozen=True)
class Sizes:
    """The lengths of a module's axes: M, C (the width of what it looks at), H, G, D and E."""

    model: int
    context: int
    heads: int
    groups: int
    width: int
    wide: int

    def hold(self, heads: int, groups: int, width: int, wide: int) -> bool:
        """Whether a problem of these sizes can be put in."""
        return heads <= self.heads and width <= self.width and wide <= self.wide and heads * self.groups == groups * self.heads


def filled(x: Tensor, lengths: dict[int, int], value: float = 0.0) -> Tensor:
    """Zeros behind, up to these lengths of these axes (counted from the end: -1 is the last)."""
    for axis, length in lengths.items():
        more = length - x.shape[axis]
        if more:
            x = pad(x, [0, 0] * (-axis - 1) + [0, more], value=value)
    return x


def heads_filled(plane: Tensor | None, heads: int, sizes: Sizes) -> Tensor | None:
    """A mask or bias with rows for the heads that were added, where it differs by head at all. Added heads see everything."""
    if plane is None or plane.dim() < 3 or plane.shape[-3] != heads or heads == sizes.heads:
        return plane
    more = (*plane.shape[:-3], sizes.heads - heads, *plane.shape[-2:])
    return torch.cat([plane, plane.new_ones(more) if plane.dtype == torch.bool else plane.new_zeros(more)], -3)


def larger_call(problem: Problem, sizes: Sizes) -> Problem:
    """The same attention in more and wider heads; what it gives lies in the first of them.

    Raises:
        Refused: it does not fit.
    """
    heads, groups, width, wide = problem.query.shape[1], problem.key.shape[1], problem.query.shape[3], problem.value.shape[3]
    if not sizes.hold(heads, groups, width, wide):
        raise Refused(f"the module has {sizes.heads} heads of width {sizes.width}, {sizes.groups} of them for keys.")
    query = problem.query if width == sizes.width else problem.query * (sizes.width / width) ** 0.5
    return problem.having(
        query=filled(query, {-1: sizes.width, -3: sizes.heads}),
        key=filled(problem.key, {-1: sizes.width, -3: sizes.groups}),
        value=filled(problem.value, {-1: sizes.wide, -3: sizes.groups}),
        mask=heads_filled(problem.mask, heads, sizes),
        bias=heads_filled(problem.bias, heads, sizes),
    )


def larger_layer(problem: LayerProblem, sizes: Sizes) -> LayerProblem:
    """The same layer in a larger one; its output lies in the first M numbers.

    Raises:
        Refused: it does not fit.
    """
    params = problem.params
    (model, heads, width), (context, groups, _), wide = params.w_q.shape, params.w_k.shape, params.w_v.shape[2]
    if not sizes.hold(heads, groups, width, wide) or model > sizes.model or context > sizes.context:
        raise Refused(f"the module is {sizes.model} wide and has {sizes.heads} heads of width {sizes.width}, {sizes.groups} of them for keys.")
    stretch = (sizes.width / width) ** 0.5
    asks = {name: tensor if width == sizes.width or tensor is None else tensor * stretch for name, tensor in (("w_q", params.w_q), ("b_q", params.b_q))}
    maps = {
        "w_q": filled(asks["w_q"], {-1: sizes.width, -2: sizes.heads, -3: sizes.model}),
        "w_k": filled(params.w_k, {-1: sizes.width, -2: sizes.groups, -3: sizes.context}),
        "w_v": filled(params.w_v, {-1: sizes.wide, -2: sizes.groups, -3: sizes.context}),
        "w_o": filled(params.w_o, {-1: sizes.model, -2: sizes.wide, -3: sizes.heads}),
        "b_q": _filled(asks["b_q"], {-1: sizes.width, -2: sizes.heads}),
        "b_k": _filled(params.b_k, {-1: sizes.width, -2: sizes.groups}),
        "b_v": _filled(params.b_v, {-1: sizes.wide, -2: sizes.groups}),
        "b_o": _filled(params.b_o, {-1: sizes.model}),
        "sink": _filled(params.sink, {-1: sizes.heads}),
    }
    return LayerProblem(
        filled(problem.x, {-1: sizes.model}),
        LayerParams(**maps),
        _filled(problem.context, {-1: sizes.context}),
        mask=heads_filled(problem.mask, heads, sizes),
        bias=heads_filled(problem.bias, heads, sizes),
        **{name: value for name, value in problem.options.items() if name not in ("context", "mask", "bias")},
    )


def _filled(x: Tensor | None, lengths: dict[int, int]) -> Tensor | None:
    return None if x is None else filled(x, lengths)
