"""One layer's attention to be computed: x, what the layer has learned, and the options of the call."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from headwise.attention.layer import LayerParams
from headwise.attention.position import NOPE, PositionEncoding
from headwise.axes import Bool, Float, Tensor
from headwise.conformance.oracles import layer_oracle
from headwise.conformance.problems.answer import Answer
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.problem import Problem, usual
from headwise.conformance.problems.source_code import written


@dataclass(frozen=True, eq=False)
class LayerProblem:
    """x, the maps of a layer, and what is said about them. The words are those of `Problem`.

    Attributes:
        x: tokens that ask, [B, T, M]; they look at themselves, or at `context` [B, S, C].
        params: the projection matrices, split by head, with biases and sinks. Held as values; nothing of theirs computes here.
        position: rotary, ALiBi or T5's buckets, as a value; the oracle reads its numbers and does the rest itself.
        chunks: lengths in which the text is taken in with a cache, () for all at once. It must not matter.
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
        """[B, H, T, S], that of the weights."""
        answers = self.x if self.context is None else self.context
        return (len(self.x), self.params.w_q.shape[1], self.x.shape[1], answers.shape[1])

    @property
    def options(self) -> dict[str, Any]:
        """What is not as usual, beside x and the maps."""
        return {f.name: getattr(self, f.name) for f in fields(LayerProblem) if f.name not in ("x", "params") and not usual(getattr(self, f.name), f.default)}

    def having(self, **changes: Any) -> "LayerProblem":
        """The same problem with these changed; names of learned maps too."""
        maps = {name: changes.pop(name) for name in list(changes) if name in vars(self.params)}
        return replace(self, **({"params": replace(self.params, **maps)} if maps else {}), **changes)

    def floats(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        found = {"x": self.x, "context": self.context, "bias": self.bias, **vars(self.params)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> "LayerProblem":
        """The same problem, rounded to a dtype."""
        moved = {name: tensor.to(device, dtype) for name, tensor in self.floats().items()}
        return self.having(**moved, mask=None if self.mask is None else self.mask.to(device))

    def inner(self) -> Problem:
        """The attention inside, in float64: q, k and v as the oracle projects and turns them."""
        return layer_oracle.inner(self)

    def seen(self, conventions: Conventions = OURS) -> Bool[Tensor, "B H T S"]:
        """True where a query sees a key."""
        return self.inner().seen(conventions)

    def right(self, conventions: Conventions = OURS) -> Answer:
        """The right answer in float64, dropout left out."""
        return layer_oracle.layer(self, conventions)

    def size(self) -> tuple[int, int, int, float]:
        """Smaller comes first, as for `Problem`."""
        numbers = torch.cat([tensor.detach().double().flatten() for tensor in self.floats().values()])
        finite = numbers[numbers.isfinite()]
        return (len(numbers), len(self.options), int((finite != finite.round()).sum()), float(finite.abs().sum()))

    def __repr__(self) -> str:
        said = {"x": self.x, "params": self.params, **self.options}
        return f"LayerProblem({', '.join(f'{name}={written(value)}' for name, value in said.items())})"
