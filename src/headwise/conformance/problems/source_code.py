"""Tensors and numbers as Python source."""

from dataclasses import fields, is_dataclass

import torch

from headwise.axes import Tensor


def to_source(value: object) -> str:
    """Runnable Python for a tensor, a number, a flag, a tuple or a dataclass of these; it needs `torch` and the dataclass in scope.

    Example:
        >>> to_source(torch.tensor([[1.0, -torch.inf]])), to_source((2, None))
        ('torch.tensor([[1.0, -torch.inf]])', '(2, None)')
        >>> to_source(torch.zeros(2, 1, dtype=torch.float64).expand(2, 3))
        'torch.tensor([0.0, 0.0], dtype=torch.float64).as_strided((2, 3), (1, 0))'
    """
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        inside = ", ".join(map(to_source, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(f"{f.name}={to_source(getattr(value, f.name))}" for f in fields(value) if getattr(value, f.name) is not f.default)
        return f"{type(value).__name__}({inside})"
    if not isinstance(value, Tensor):
        return repr(value)
    value = value.detach().cpu()
    dtype = "" if value.dtype in (torch.float32, torch.bool, torch.int64) and value.numel() else f", dtype={value.dtype}"
    if value.is_contiguous():
        shape = "" if value.numel() else f".reshape({tuple(value.shape)})"
        return f"torch.tensor({to_source(value.tolist() if value.numel() else [])}{dtype}){shape}"
    reach = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
    memory = value.as_strided((reach,), (1,))
    return f"torch.tensor({to_source(memory.tolist())}{dtype}).as_strided({tuple(value.shape)}, {value.stride()})"


def _number(number: float) -> str:
    if number != number:
        return "torch.nan"
    if number in (float("inf"), float("-inf")):
        return "torch.inf" if number > 0 else "-torch.inf"
    return repr(number)
