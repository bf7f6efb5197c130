"""A function of jax as a function of torch: numbers go over through numpy, gradients through `jax.vjp`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from headwise.axes import Tensor


def torch_of(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Tensor:
    """function(*tensors), computed by jax, with a gradient.

    Args:
        function: of jax arrays, to one array.
    """
    return _Bridge.apply(function, *tensors)


class _Bridge(torch.autograd.Function):
    """Keeps what `jax.vjp` gave for the way back."""

    @staticmethod
    def forward(context: Any, function: Callable[..., Any], *tensors: Tensor) -> Tensor:
        import jax

        with precision(tensors):
            output, context.back = jax.vjp(function, *map(to_jax, tensors))
            context.wide = any(x.dtype == torch.float64 for x in tensors)
            return to_torch(output)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        with precision(slopes):
            return None, *map(to_torch, context.back(to_jax(slopes[0])))


def precision(tensors: Sequence[Tensor]) -> Any:
    """jax computes in float64 where it is told to, and only there."""
    import jax

    return jax.enable_x64(any(x.dtype == torch.float64 for x in tensors))


def to_jax(tensor: Tensor) -> Any:
    """The same numbers in an array of jax; bfloat16 by way of float32, which holds all of it."""
    import jax.numpy as jnp

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return jnp.asarray(tensor.float().numpy()).astype(jnp.bfloat16)
    return jnp.asarray(tensor.numpy())


def to_torch(array: Any) -> Tensor:
    """The same numbers in a tensor."""
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(np.array(array.astype("float32"))).bfloat16()
    return torch.from_numpy(np.array(array))
