"""keras 3 on torch: `keras.ops.dot_product_attention`."""

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends import keras_backend as keras_run
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported


def compute(problem: Problem, mode: CallMode) -> Tensor:
    if problem.mask is not None and problem.bias is not None:
        raise NotSupported("on torch keras takes a mask or a bias, and says so.")
    return keras_run.compute(problem, mode)


def build() -> tuple[CallSubject, ...]:
    keras_run.chosen("torch")
    supports = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("keras_torch", compute, supports, conventions, (torch.float32, torch.float64, torch.bfloat16, torch.float16)),)


ENTRY = Peer(statement="keras.ops.dot_product_attention of keras 3 on torch.", build=build, needs=("keras",), documented=("mask_polarity",))
