"""keras 3: `keras.ops.dot_product_attention`, on the backend that KERAS_BACKEND names (torch where nothing is named)."""

import os
from typing import Any

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject
from headwise.subjects.jax_bridge import to_jax, torch_of
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """Axes are [B, T, H, D]; True in a mask means that a key may be seen."""
    import keras

    tensors = [x.transpose(1, 2) for x in (problem.query, problem.key, problem.value)] + ([] if problem.bias is None else [whole(problem.bias, problem)])
    mask = None if problem.mask is None else whole(problem.mask, problem)
    jax = keras.backend.backend() == "jax"
    said: dict[str, Any] = {"mask": to_jax(mask) if jax and mask is not None else mask, "scale": problem.scale, "is_causal": problem.causal}

    def attend(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        return keras.ops.dot_product_attention(query, key, value, bias=bias, **said)

    found = torch_of(attend, tensors) if jax else attend(*tensors)
    return found.transpose(1, 2)


def whole(plane: Tensor, problem: Problem) -> Tensor:
    """Four axes, all of them whole."""
    return plane.broadcast_to(problem.shape)


def build() -> tuple[CallSubject, ...]:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    honours = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    dead = "mean" if keras.backend.backend() == "jax" else "zero"
    conventions = Conventions(corner="top-left", dead_row=dead, hidden_nonfinite="leaks", weights="never")
    dtypes = (torch.float32, torch.float64) if keras.backend.backend() == "torch" else (torch.float32,)
    return (CallSubject(f"keras_attention, {keras.backend.backend()}", compute, honours, conventions, dtypes),)


ENTRY = Peer(statement="keras.ops.dot_product_attention of keras 3.", build=build, needs=("keras",), says=("mask_polarity",))
