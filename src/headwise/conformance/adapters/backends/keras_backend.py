"""`keras.ops.dot_product_attention` on one of keras' backends; a process has but one."""

import os
from importlib import import_module
from typing import Any

from headwise.axes import Tensor
from headwise.conformance.adapters.backends.jax_backend import torch_of
from headwise.conformance.answer import CallMode
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError


def chosen(backend: str) -> Any:
    """keras on this backend.

    Raises:
        ArgumentError: it runs on another already.
    """
    os.environ["KERAS_BACKEND"] = backend
    keras = import_module("keras")
    if keras.backend.backend() != backend:
        raise ArgumentError(
            f"keras_{backend} must be checked in a process where keras runs on {backend}, got {keras.backend.backend()}. Use `headwise check keras_{backend}`."
        )
    return keras


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """Axes are [B, T, H, D]; True in a mask means that a key may be seen."""
    keras = import_module("keras")
    tensors = {name: getattr(problem, name).transpose(1, 2) for name in ("query", "key", "value")}
    planes = {name: plane if plane is None else plane.broadcast_to(problem.shape) for name, plane in (("bias", problem.bias), ("mask", problem.mask))}
    said = {"scale": problem.scale, "is_causal": problem.causal}
    if keras.backend.backend() == "jax":
        return torch_of(keras.ops.dot_product_attention, tensors | planes, **said).transpose(1, 2)
    return keras.ops.dot_product_attention(**tensors, **planes, **said).transpose(1, 2)
