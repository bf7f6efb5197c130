"""One attention to be computed, in the words of `hw.attend`; and what is right, by an oracle that shares nothing with it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from headwise.axes import Bool, Float, Key, Query, Tensor, Value
from headwise.conformance.oracles import attention_oracle as oracle
from headwise.conformance.problems.answer import Answer
from headwise.conformance.problems.conventions import OURS, Conventions
from headwise.conformance.problems.source_code import written

TENSORS = ("query", "key", "value")


def usual(value: Any, default: Any) -> bool:
    """Whether an option is as it is where nothing is said, also after a way through another process."""
    if value is default or isinstance(value, Tensor):
        return value is default
    return value == default or (type(value) is type(default) and hasattr(value, "__dict__") and vars(value) == vars(default))


@dataclass(frozen=True, eq=False)
class Problem:
    """Query, key and value, and what is said about them. Head h reads key head h // (H // G).

    The words are those of `hw.attend`: a mask is bool with True = may be seen, `query_offset` None leaves the corner of the
    causal triangle to the subject's convention, and all that hides is combined by AND.

    Attributes:
        dropout: share of the weights that training drops; outside training it must not matter.

    Example:
        >>> problem = Problem(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 1), torch.tensor([[[[1.0], [3.0]]]]))
        >>> problem.right().output.tolist(), problem.having(causal=True, query_offset=0).right().output.tolist()
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
        """[B, H, T, S], that of the weights."""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that are not as usual."""
        return {f.name: getattr(self, f.name) for f in fields(Problem) if f.name not in TENSORS and not usual(getattr(self, f.name), f.default)}

    def having(self, **changes: Any) -> "Problem":
        """The same problem with these tensors or arguments changed."""
        return replace(self, **changes)

    def floats(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        found = {name: getattr(self, name) for name in (*TENSORS, "bias", "sink")}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> "Problem":
        """The same problem, rounded to a dtype; the numbers of the result are its exact input."""
        moved = {name: tensor.to(device, dtype) for name, tensor in self.floats().items()}
        return self.having(**moved, mask=None if self.mask is None else self.mask.to(device))

    def seen(self, conventions: Conventions = OURS) -> Bool[Tensor, "B H T S"]:
        """True where a query sees a key."""
        return torch.from_numpy(oracle.seen(self, conventions))

    def right(self, conventions: Conventions = OURS, upstream: Tensor | None = None) -> Answer:
        """The right answer in float64, dropout left out; with gradients for an upstream gradient of the output."""
        return oracle.attention(self, conventions, upstream)

    def size(self) -> tuple[int, int, int, float]:
        """Smaller comes first: fewer numbers, then fewer options, then whole numbers, then small ones."""
        tensors = [*self.floats().values()]
        numbers = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
        finite = numbers[numbers.isfinite()]
        return (len(numbers), len(self.options), int((finite != finite.round()).sum()), float(finite.abs().sum()))

    def __repr__(self) -> str:
        said = {name: getattr(self, name) for name in TENSORS} | self.options
        return f"Problem({', '.join(f'{name}={written(value)}' for name, value in said.items())})"
