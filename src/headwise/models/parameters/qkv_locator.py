"""Which rows of which parameters make the query, key and value of each head: located by gradients, never by name.

What a head's query depends on, and no other head's does, is its own; so fused projections, interleaved heads, low-rank ones
and adapters are located alike. The values of the weights play no part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.errors import ModelError
from headwise.models.capture.forward_pass import explain_errors, instrumented_clone, run_unmodified
from headwise.models.capture.hf_attention import register
from headwise.models.capture.recorder import LayoutChanged
from headwise.models.layout import Layout
from headwise.models.parameters.gradient_trace import TOLERANCE, GradientTracer, HeadDependence, LeafTensor, TracedHeads, trace_call
from headwise.models.parameters.head_blocks import HeadBlock


@dataclass(frozen=True)
class HeadParameters:
    """The parameters of one head's query, key or value, and of no other's.

    Attributes:
        weights: rows of matrices (columns, in a Conv1D).
        biases: the same rows of their biases.
    """

    weights: tuple[HeadBlock, ...]
    biases: tuple[HeadBlock, ...]

    @property
    def blocks(self) -> tuple[HeadBlock, ...]:
        return (*self.weights, *self.biases)


@dataclass(frozen=True)
class ProjectedHeads:
    """The queries of one call, its keys or its values.

    Attributes:
        heads: by query head, or by key head.
        refusal: why they are not known, or None.
        linear: the projection grows in proportion to the head's own rows; False where a norm comes after, or where rows that heads share add to it.
        sizes: by head: the root mean square of its projection where the rows give random numbers of size 1; NaN where it is unknown.
    """

    heads: tuple[HeadParameters, ...] = ()
    refusal: str | None = None
    linear: bool = False
    sizes: tuple[float, ...] = ()


@dataclass(frozen=True)
class QKVProjections:
    """The projections of one call; query head h reads key head h // (H // G)."""

    query: ProjectedHeads
    key: ProjectedHeads
    value: ProjectedHeads


def locate_qkv(hf: nn.Module, inputs: Mapping[str, Any], layout: Layout) -> dict[int, QKVProjections]:
    """For each call of a pass, by its index, the rows of each head's query, key and value.

    Args:
        inputs: the model's keyword arguments: one short input of the kind that the layout is of.

    Raises:
        ModelError: the model makes other attention calls when its numbers are random.
    """
    register()
    tracer = GradientTracer(instrumented_clone(hf), layout, inputs)
    try:
        with torch.random.fork_rng(devices=()):
            explain_errors(hf, tracer.run, lambda: run_unmodified(hf, inputs))
    except LayoutChanged:
        raise ModelError(
            f"{type(hf).__name__} makes other attention calls when its numbers are random, so that the projections of its heads cannot be located."
        ) from None
    found = {}
    for index, captured in tracer.captured.items():
        with torch.inference_mode(False), torch.enable_grad():
            sides = trace_call(captured, tracer.leaves)
        found[index] = QKVProjections(*(_side(side, [head for other in sides if other is not side for head in other.heads], tracer.leaves) for side in sides))
    return found


def _side(side: TracedHeads, others: Sequence[HeadDependence], leaves: Sequence[LeafTensor]) -> ProjectedHeads:
    """Each head's own rows: those that no other head of its side, and none of the other sides, depends on."""
    if side.refusal is not None:
        return ProjectedHeads(refusal=side.refusal)
    sizes = tuple(head.size for head in side.heads)
    counts: dict[int, Tensor] = {}
    for head in (*side.heads, *others):
        for leaf, marks in head.rows.items():
            counts[leaf] = counts.get(leaf, torch.zeros(len(marks), dtype=torch.int64)) + marks
    heads, linear = [], True
    for number, head in enumerate(side.heads):
        own = {leaf: marks & (counts[leaf] == 1) for leaf, marks in head.rows.items()}
        if not any(bool(marks.any()) for marks in own.values()):
            return ProjectedHeads(refusal=f"every row that head {number} depends on, another one depends on too (a norm over all heads?)", sizes=sizes)
        linear = linear and _is_linear(head, own)
        heads.append(_owned(own, leaves))
    return ProjectedHeads(tuple(heads), None, linear, sizes)


def _is_linear(head: HeadDependence, own: Mapping[int, Tensor]) -> bool:
    """Euler: what is linear in its own rows equals the sum of slope times row over them."""
    if head.straight is not None:
        return head.straight
    along = sum(float(head.slopes[leaf][marks].sum()) for leaf, marks in own.items())
    size = sum(float(slopes.abs().sum()) for slopes in head.slopes.values())
    return abs(along - head.total) <= TOLERANCE * max(size, abs(head.total))


def _owned(own: Mapping[int, Tensor], leaves: Sequence[LeafTensor]) -> HeadParameters:
    weights: dict[str, HeadBlock] = {}
    biases: dict[str, HeadBlock] = {}
    for leaf, marks in own.items():
        rows = tuple(int(row) for row in marks.nonzero()[:, 0])
        (weight, axis), bias = leaves[leaf].weight, leaves[leaf].bias
        if rows and weight:
            weights[weight] = HeadBlock(weight, axis, rows)
        if rows and bias is not None:
            biases[bias] = HeadBlock(bias, 0, rows)
    return HeadParameters(tuple(weights.values()), tuple(biases.values()))
