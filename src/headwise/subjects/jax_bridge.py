"""A function of jax as a function of torch: numbers go over through numpy, gradients through `jax.vjp`."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from headwise.axes import Tensor

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def torch_of(function: Callable[..., Any], tensors: Mapping[str, Tensor | None], **settings: Hashable) -> Any:
    """function(**tensors, **settings), compiled by jax, with a gradient.

    Args:
        function: of jax arrays by name, to one array or a tuple of arrays.
        tensors: None stands for an argument that is left out; a mask has no gradient.
        settings: what is no array; each set of them is compiled once a shape.
    """
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return _Bridge.apply(_compiled(function, tuple(given), tuple(sorted(settings.items()))), *given.values())


@lru_cache(maxsize=256)
def _compiled(function: Callable[..., Any], names: tuple[str, ...], settings: tuple[tuple[str, Hashable], ...]) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda *arrays: function(**dict(zip(names, arrays, strict=True)), **dict(settings)))


class _Bridge(torch.autograd.Function):
    """Keeps what `jax.vjp` gave for the way back."""

    @staticmethod
    def forward(context: Any, function: Callable[..., Any], *tensors: Tensor) -> Any:
        import jax

        context.with_slope = [n for n, tensor in enumerate(tensors) if tensor.is_floating_point()]
        with precision(tensors):
            arrays = [to_jax(tensor) for tensor in tensors]
            if any(context.needs_input_grad):
                found, context.back = jax.vjp(_of_some(function, arrays, context.with_slope), *(arrays[n] for n in context.with_slope))
            else:
                found = function(*arrays)
            return tuple(map(to_torch, found)) if isinstance(found, tuple) else to_torch(found)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        found: list[Tensor | None] = [None] * (len(context.needs_input_grad) - 1)
        with precision(slopes):
            given = tuple(map(to_jax, slopes))
            for n, slope in zip(context.with_slope, context.back(given if len(given) > 1 else given[0]), strict=True):
                found[n] = to_torch(slope)
        return None, *found


def _of_some(function: Callable[..., Any], arrays: list[Any], places: list[int]) -> Callable[..., Any]:
    """A function of the arrays at these places; the others stay as they are."""

    def call(*some: Any) -> Any:
        every = list(arrays)
        for place, array in zip(places, some, strict=True):
            every[place] = array
        return function(*every)

    return call


def precision(tensors: Sequence[Tensor]) -> AbstractContextManager[Any]:
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
