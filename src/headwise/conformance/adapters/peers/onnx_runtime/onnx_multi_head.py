"""ONNX Runtime: com.microsoft MultiHeadAttention, on the CPU."""

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.onnx_backend import apart, full, merged, plane, run
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """Heads lie side by side, [B, T, H·D]. A mask of one row a text is its padding mask; what else hides is added, and joins a bias."""
    batch, heads, _, keys = problem.shape
    padding, told = None, problem
    if problem.mask is not None and problem.mask.dim() == 4 and problem.mask.shape[1] == problem.mask.shape[2] == 1:
        padding, told = problem.mask[:, 0, 0].expand(batch, keys).to(torch.int32), problem.replace(mask=None)
    lowest = float(torch.finfo(problem.query.dtype).min)
    added = plane(told, lowest)
    added = None if added is None else full(added).expand(-1, -1, *problem.shape[2:])
    attributes = {"num_heads": heads, "unidirectional": int(problem.causal), "mask_filter_value": lowest}
    attributes |= {} if problem.scale is None else {"scale": problem.scale}
    tensors = [merged(x) for x in (problem.query, problem.key, problem.value)]
    return apart(run("MultiHeadAttention", "com.microsoft", 23, [*tensors, None, padding, added], attributes), heads)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "gradients", "empty"}
    conventions = Conventions(corner="top-left", weights="never", dead_row="mean", hidden_nonfinite="leaks")
    return (CallSubject("onnx_multi_head", compute, supports, conventions, (torch.float32,)),)


ENTRY = Peer(statement="com.microsoft MultiHeadAttention in ONNX Runtime.", build=build, needs=("onnx", "onnxruntime"))
