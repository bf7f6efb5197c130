"""One attention to be computed by several judges: the tensors and the keyword arguments of `attend`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.attention.attend import attend
from headwise.attention.call import Attended
from tests.attention import oracle

EVERY = ("all", "segment", "received")  # statistics, where `segments` are given
LEARNED = ("query", "key", "value", "bias", "sink")


@dataclass(frozen=True, eq=False)
class Problem:
    query: Tensor
    key: Tensor
    value: Tensor
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        tensors = {"query": self.query, "key": self.key, "value": self.value, **self.options}
        return "Problem(" + ", ".join(f"{name}={_brief(value)}" for name, value in tensors.items()) + ")"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints."""
        printer.text(repr(self))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[B, H, T, S], the shape of the weights."""
        return (*self.query.shape[:3], self.key.shape[2])

    def run(self, backend: str, statistics: str | Iterable[str] = ()) -> Attended:
        names = (statistics,) if isinstance(statistics, str) else tuple(statistics)
        options = {name: value for name, value in self.options.items() if name != "segments" or "segment" in names}
        return attend(self.query, self.key, self.value, **options, statistics=names, backend=backend)

    def having(self, **changes: Any) -> "Problem":
        """The same problem with these tensors or arguments changed; None takes an argument away."""
        tensors = {name: changes.pop(name) for name in ("query", "key", "value") if name in changes}
        options = {name: value for name, value in {**self.options, **changes}.items() if value is not None}
        return replace(self, **tensors, options=options)

    def params(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient."""
        tensors = {"query": self.query, "key": self.key, "value": self.value, **self.options}
        return {name: tensors[name] for name in LEARNED if tensors.get(name) is not None}

    def double(self) -> "Problem":
        return self.having(**{name: x.double() for name, x in self.params().items()})

    def leaves(self) -> "Problem":
        """The same numbers in the same memory layout, ready to gather gradients."""
        return self.having(**{name: x.detach().requires_grad_() for name, x in self.params().items()})

    def arrays(self) -> tuple[list[np.ndarray], dict[str, Any]]:
        """What the oracle reads."""
        tensors = [x.detach().double().numpy() for x in (self.query, self.key, self.value)]
        return tensors, {name: _array(value) for name, value in self.options.items()}

    def oracle(self) -> oracle.Answer:
        tensors, options = self.arrays()
        return oracle.attention(*tensors, **options)

    def seen(self) -> Tensor:
        """[B, H, T, S], True where a query sees a key, by the oracle's rules."""
        options = self.arrays()[1]
        rules = {name: options[name] for name in ("causal", "query_offset", "window", "mask", "bias") if name in options}
        return torch.from_numpy(oracle.visible(self.shape, **rules))


def _brief(value: Any) -> str:
    """Small tensors in full, large ones by their layout."""
    if not isinstance(value, Tensor):
        return repr(value)
    kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return f"{kind}={value.tolist()}" if value.numel() <= 24 else f"{kind} strides {value.stride()}"


def _array(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return (value.detach().double() if value.is_floating_point() else value).numpy()


def gradients(problem: Problem, backend: str, d_output: Tensor, d_lse: Tensor) -> dict[str, Tensor]:
    """Gradients of Σ output · d_output + Σ lse · d_lse by the backend's own backward."""
    leaves = problem.leaves()
    found = leaves.run(backend)
    tensors = leaves.params()
    slopes = torch.autograd.grad([found.output, found.lse], list(tensors.values()), [d_output.to(found.output.dtype), d_lse.to(found.lse.dtype)])
    return dict(zip(tensors, slopes, strict=True))


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers from a normal distribution, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def agree(found: Tensor, right: Tensor, allowed: Tensor | float, what: str = "") -> None:
    """Equal, both NaN, or no further apart than allowed; NaN where allowed is NaN."""
    assert found.shape == right.shape, f"{what}: shape {list(found.shape)} instead of {list(right.shape)}"
    found, right = found.detach().double(), right.detach().double()
    gap = (found - right).abs()
    fine = (found == right) | (found.isnan() & right.isnan()) | (gap <= allowed)
    if not fine.all():
        place = tuple(int(x) for x in (~fine).nonzero()[0])
        limit = allowed if isinstance(allowed, float) else allowed.broadcast_to(found.shape)[place]
        raise AssertionError(f"{what}: {found[place]} instead of {right[place]} at {place}, {int((~fine).sum())} such; allowed {limit}")
