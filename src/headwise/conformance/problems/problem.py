"""One attention to compute, in the arguments of `hw.attend`, and its expected result."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from headwise.axes import Bool, Float, Key, Query, Tensor, Value
from headwise.conformance.answer import Answer
from headwise.conformance.conventions import OURS, Conventions
from headwise.conformance.oracles import attention_oracle as oracle
from headwise.conformance.problems.source_code import to_source

TENSORS = ("query", "key", "value")


def is_default(value: object, default: object) -> bool:
    """Whether an option has its default value, also after pickling."""
    if value is default or isinstance(value, Tensor):
        return value is default
    return value == default or (type(value) is type(default) and hasattr(value, "__dict__") and vars(value) == vars(default))


@dataclass(frozen=True, eq=False)
class Problem:
    """Query, key and value, and the options of the call. Query head h reads key/value head h // (H // G).

    The arguments are those of `hw.attend`: True in a mask means that the key is visible, `query_offset=None` leaves the alignment of the causal mask to the
    subject's convention, and a key is visible where every rule allows it.

    Attributes:
        query: [B, H, T, D].
        key: [B, G, S, D].
        value: [B, G, S, E].
        dropout: probability that training drops a weight; without training it must not matter.

    Example:
        >>> problem = Problem(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 1), torch.tensor([[[[1.0], [3.0]]]]))
        >>> problem.expected().output.tolist(), problem.replace(causal=True, query_offset=0).expected().output.tolist()
        ([[[[2.0]]]], [[[[1.0]]]])
    """

    query: Query
    key: Key
    value: Value
    causal: bool = False
    query_offset: int | Sequence[int] | Tensor | None = None
    window: int | tuple[int | None, int | None] | None = None
    mask: Bool[Tensor, "..."] | None = None
    bias: Float[Tensor, "..."] | None = None
    scale: float | None = None
    softcap: float | None = None
    sink: Float[Tensor, "..."] | None = None
    dropout: float = 0.0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[B, H, T, S], the shape of the attention weights."""
        return self.query.shape[0], self.query.shape[1], self.query.shape[2], self.key.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the query."""
        return self.query.dtype

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that differ from their defaults."""
        return {f.name: getattr(self, f.name) for f in fields(Problem) if f.name not in TENSORS and not is_default(getattr(self, f.name), f.default)}

    def replace(self, **changes: Any) -> "Problem":
        """A copy with these tensors or arguments replaced."""
        return replace(self, **changes)

    def float_tensors(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        found = {name: getattr(self, name) for name in (*TENSORS, "bias", "sink")}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> "Problem":
        """A copy rounded to a dtype; the rounded numbers are its exact input."""
        moved = {name: tensor.to(device, dtype) for name, tensor in self.float_tensors().items()}
        return self.replace(**moved, mask=None if self.mask is None else self.mask.to(device))

    def visible(self, conventions: Conventions = OURS) -> Bool[Tensor, "B H T S"]:
        """True where a query may attend to a key."""
        return torch.from_numpy(oracle.visibility(self, conventions))

    def expected(self, conventions: Conventions = OURS, upstream: Tensor | None = None) -> Answer:
        """The correct answer in float64, without dropout; with gradients where an upstream gradient of the output is given."""
        return oracle.attention(self, conventions, upstream)

    def __repr__(self) -> str:
        arguments = {name: getattr(self, name) for name in TENSORS} | self.options
        return f"Problem({', '.join(f'{name}={to_source(value)}' for name, value in arguments.items())})"
