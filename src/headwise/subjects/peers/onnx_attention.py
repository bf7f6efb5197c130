"""ONNX Runtime: the operator Attention of ONNX 23 (and 24), on the CPU."""

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject
from headwise.subjects.onnx_run import run
from headwise.subjects.peer import Peer


def build(opset: int = 23) -> tuple[CallSubject, ...]:
    """Axes are [B, H, T, D]; a mask has True where a key may be seen, or is added where it is float.

    Args:
        opset: 23 or 24.
    """

    def compute(problem: Problem, how: How) -> Tensor:
        attributes = {"is_causal": int(problem.causal), "scale": problem.scale, "softcap": problem.softcap}
        plane = problem.mask if problem.bias is None else problem.bias
        if problem.mask is not None and problem.bias is not None:
            plane = torch.where(problem.mask, problem.bias, -torch.inf)
        plane = None if plane is None else plane.broadcast_to(problem.shape)
        told = {name: value for name, value in attributes.items() if value is not None}
        return run("Attention", "", opset, [problem.query, problem.key, problem.value, plane], told)

    honours = frozenset({"causal", "mask", "bias", "scale", "softcap", *ABILITIES}) - {"weights", "lse", "offset_by_row", "gradients", "empty"}
    conventions = Conventions(corner="top-left", weights="never", hidden_nonfinite="leaks")
    return (CallSubject(f"onnx_attention, opset {opset}", compute, honours, conventions, (torch.float32, torch.float16)),)


ENTRY = Peer(statement="Attention of ONNX 23 and 24 in ONNX Runtime.", build=build, needs=("onnx", "onnxruntime"), says=("mask_polarity", "corner"))
