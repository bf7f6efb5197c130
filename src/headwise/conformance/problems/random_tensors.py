"""Random tensors that are the same in every run."""

import torch

from headwise.axes import Tensor


def random_normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def noise_like(x: Tensor, seed: int = 0) -> Tensor:
    """Standard normal numbers of the shape, dtype and device of `x`."""
    return random_normal(*x.shape, seed=seed).to(x)
