"""ONNX Runtime: com.microsoft MultiHeadAttention, on the CPU."""

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject
from headwise.subjects.onnx_run import run
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """Heads lie side by side, [B, T, H·D]; a mask and a bias together are one plane that is added."""
    merged = [x.transpose(1, 2).flatten(2) for x in (problem.query, problem.key, problem.value)]
    plane = problem.bias
    if problem.mask is not None:
        plane = torch.where(problem.mask, problem.query.new_zeros(()) if plane is None else plane, -torch.inf)
    plane = None if plane is None else plane.broadcast_to(problem.shape)
    attributes = {"num_heads": problem.query.shape[1], "unidirectional": int(problem.causal)}
    attributes |= {} if problem.scale is None else {"scale": problem.scale}
    found = run("MultiHeadAttention", "com.microsoft", 23, [*merged, None, None, plane], attributes)
    return found.unflatten(-1, (problem.query.shape[1], -1)).transpose(1, 2)


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "gradients", "empty"}
    conventions = Conventions(weights="never", dead_row="mean", hidden_nonfinite="leaks")
    return (CallSubject("onnx_multi_head", compute, honours, conventions, (torch.float32,)),)


ENTRY = Peer(statement="com.microsoft MultiHeadAttention in ONNX Runtime.", build=build, needs=("onnx", "onnxruntime"))
