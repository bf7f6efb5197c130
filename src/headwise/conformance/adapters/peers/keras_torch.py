"""keras 3 on torch: `keras.ops.dot_product_attention`."""

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends import keras_backend as keras_run
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.adapters.subject import ABILITIES, Refused
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, how: How) -> Tensor:
    if problem.mask is not None and problem.bias is not None:
        raise Refused("on torch keras takes a mask or a bias, and says so.")
    return keras_run.compute(problem, how)


def build() -> tuple[CallSubject, ...]:
    keras_run.chosen("torch")
    honours = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("keras_torch", compute, honours, conventions, (torch.float32, torch.float64, torch.bfloat16, torch.float16)),)


ENTRY = Peer(statement="keras.ops.dot_product_attention of keras 3 on torch.", build=build, needs=("keras",), says=("mask_polarity",))
