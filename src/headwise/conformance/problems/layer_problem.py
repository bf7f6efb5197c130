"""One layer to compute: x, the layer's parameters, and the options of the call."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import NOPE, PositionEncoding
from headwise.axes import Bool, Float, Tensor
from headwise.conformance.answer import Answer
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.oracles import layer_oracle
from headwise.conformance.problems.problem import Problem, is_default
from headwise.conformance.problems.source_code import to_source

INNER_OPTIONS = ("causal", "query_offset", "window", "mask", "bias", "scale", "softcap", "dropout")


@dataclass(frozen=True, eq=False)
class LayerProblem:
    """x, the parameters of a layer, and the options of the call, which are those of `Problem`.

    Attributes:
        x: the tokens that attend, [B, T, M]; they attend to themselves, or to `context` [B, S, C].
        params: the projections split by head, with biases and sinks; used as values only.
        position: rotary positions, ALiBi or T5's buckets; the reference reads its settings and computes the rest itself.
        chunks: lengths in which a decoder with a KV cache takes the tokens, () for all at once. They must not matter.
    """

    x: Float[Tensor, "B T M"]
    params: LayerParams
    context: Float[Tensor, "B N C"] | None = None
    causal: bool = False
    query_offset: int | Sequence[int] | Tensor | None = None
    window: int | tuple[int | None, int | None] | None = None
    mask: Bool[Tensor, "..."] | None = None
    bias: Float[Tensor, "..."] | None = None
    scale: float | None = None
    softcap: float | None = None
    dropout: float = 0.0
    position: PositionEncoding = NOPE
    chunks: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[B, H, T, S], the shape of the attention weights."""
        context = self.x if self.context is None else self.context
        return (len(self.x), self.params.w_q.shape[1], self.x.shape[1], context.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of x."""
        return self.x.dtype

    @property
    def options(self) -> dict[str, Any]:
        """What differs from its default, apart from x and the parameters."""
        own = [f for f in fields(LayerProblem) if f.name not in ("x", "params")]
        return {f.name: getattr(self, f.name) for f in own if not is_default(getattr(self, f.name), f.default)}

    def replace(self, **changes: Any) -> "LayerProblem":
        """A copy with these replaced; parameters can be given by name."""
        parameters = {name: changes.pop(name) for name in list(changes) if name in vars(self.params)}
        return replace(self, **({"params": replace(self.params, **parameters)} if parameters else {}), **changes)

    def float_tensors(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        found = {"x": self.x, "context": self.context, "bias": self.bias, **vars(self.params)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> "LayerProblem":
        """A copy rounded to a dtype."""
        moved = {name: tensor.to(device, dtype) for name, tensor in self.float_tensors().items()}
        return self.replace(**moved, mask=None if self.mask is None else self.mask.to(device))

    def inner_problem(self) -> Problem:
        """The attention inside, in float64: q, k and v as the reference projects them, positions applied."""
        return _inner_problem(self)

    def visible(self, conventions: Conventions = OURS) -> Bool[Tensor, "B H T S"]:
        """True where a query may attend to a key."""
        return self.inner_problem().visible(conventions)

    def expected(self, conventions: Conventions = OURS) -> Answer:
        """The correct answer in float64, without dropout."""
        return layer_oracle.layer(self, conventions)

    def __repr__(self) -> str:
        arguments = {"x": self.x, "params": self.params, **self.options}
        return f"LayerProblem({', '.join(f'{name}={to_source(value)}' for name, value in arguments.items())})"


@lru_cache(maxsize=4096)
def _inner_problem(problem: LayerProblem) -> Problem:
    options = {name: getattr(problem, name) for name in INNER_OPTIONS}
    return Problem(**{**options, **layer_oracle.inner_tensors(problem)}, sink=problem.params.sink)


AnyProblem = Problem | LayerProblem
"""An attention of query, key and value, or a layer from x to its output."""
