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
    places = tuple(n for n, tensor in enumerate(given.values()) if tensor.is_floating_point())
    return _Bridge.apply(*_compiled(function, tuple(given), places, tuple(sorted(settings.items()))), places, *given.values())


# Every shape is compiled anew and run a few times: a seventh of the time goes into a compilation that looks for no speed.
PLAINLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}


@lru_cache(maxsize=256)
def _compiled(
    function: Callable[..., Any], names: tuple[str, ...], places: tuple[int, ...], settings: tuple[tuple[str, Hashable], ...]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function of arrays in this order, and its gradient at these places: (arrays, slopes) → slopes."""
    import jax

    def forward(*arrays: Any) -> Any:
        return function(**dict(zip(names, arrays, strict=True)), **dict(settings))

    def backward(arrays: list[Any], slopes: Any) -> Any:
        return jax.vjp(_of_some(forward, arrays, places), *(arrays[n] for n in places))[1](slopes)

    return jax.jit(forward, compiler_options=PLAINLY), jax.jit(backward, compiler_options=PLAINLY)


class _Bridge(torch.autograd.Function):
    """Keeps the arrays for the way back, on which jax runs the function once more."""

    @staticmethod
    def forward(context: Any, function: Callable[..., Any], back: Callable[..., Any], places: tuple[int, ...], *tensors: Tensor) -> Any:
        with precision(tensors):
            context.arrays, context.back, context.places = [to_jax(tensor) for tensor in tensors], back, places
            try:
                found = function(*context.arrays)
            except ValueError as error:  # what it computes step by step it may not compile
                raise ValueError(f"under jax.jit: {error}") from error
            return tuple(map(to_torch, found)) if isinstance(found, tuple) else to_torch(found)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        found: list[Tensor | None] = [None] * len(context.arrays)
        with precision(slopes):
            given = tuple(map(to_jax, slopes))
            for n, slope in zip(context.places, context.back(context.arrays, given if len(given) > 1 else given[0]), strict=True):  # pyright: ignore[reportGeneralTypeIssues]
                found[n] = to_torch(slope)
        return None, None, None, *found


def _of_some(function: Callable[..., Any], arrays: list[Any], places: tuple[int, ...]) -> Callable[..., Any]:
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
