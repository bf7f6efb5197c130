"""ONNX Runtime: the operator Attention of ONNX 23 and 24, on the CPU, with a past and without."""

from functools import partial
from typing import Any

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.onnx_backend import PRESENT, apart, full, merged, plane, run
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError, NotSupported

OPSETS = (23, 24)
MERGED, BROADCAST = "heads side by side", "a mask that broadcasts"


def compute(opset: int, problem: Problem, mode: CallMode) -> Tensor:
    """Axes are [B, H, T, D], or [B, T, H·D] on a path of its own; a mask has True where a key may be seen, or is added where it is float.

    Queries stand behind a past: the keys before them are its cache. A mask has a row for every query, but for the path on which
    it broadcasts, as the standard allows.
    """
    heads, groups, past = problem.query.shape[1], problem.key.shape[1], _past(problem)
    attributes: dict[str, Any] = {"is_causal": int(problem.causal), "scale": problem.scale, "softcap": problem.softcap}
    mask = problem.mask if problem.bias is None else plane(problem)
    tensors = [problem.query, problem.key[:, :, past:], problem.value[:, :, past:]]
    cached = [problem.key[:, :, :past], problem.value[:, :, :past]] if past else []
    if mask is not None:
        mask = full(mask) if mode.path == BROADCAST else full(mask).expand(-1, -1, *problem.shape[2:])
    if mode.path == MERGED:
        tensors = [merged(x) for x in tensors]
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    told = {name: value for name, value in attributes.items() if value is not None}
    found = run("Attention", "", opset, [*tensors, mask, *cached], told, ("output", *(PRESENT if past else ())))
    return apart(found, heads) if mode.path == MERGED else found


def _past(problem: Problem) -> int:
    """How many keys stand before the first query."""
    offset = problem.query_offset
    if offset is None:
        return 0
    if not isinstance(offset, int) or not 0 <= offset < problem.key.shape[2]:
        raise NotSupported("a past holds some of the keys, as many for every row of the batch.")
    return offset


def build(opset: int | None = None) -> tuple[CallSubject, ...]:
    """One for each opset.

    Args:
        opset: 23 or 24; both when absent.
    """
    if opset not in (None, *OPSETS):
        raise ArgumentError(f"opset must be 23 or 24, got {opset!r}. Choose one of them, or leave it out for both.")
    supports = frozenset({"causal", "query_offset", "mask", "bias", "scale", "softcap", *ABILITIES}) - {"weights", "lse", "offset_by_row", "gradients", "empty"}
    conventions = Conventions(corner="top-left", weights="never", hidden_nonfinite="leaks")
    dtypes, paths = (torch.float32, torch.float16), (MERGED, BROADCAST)
    chosen = OPSETS if opset is None else (opset,)
    return tuple(CallSubject(f"onnx_attention, opset {n}", partial(compute, n), supports, conventions, dtypes, paths=paths) for n in chosen)


ENTRY = Peer(
    statement="Attention of ONNX 23 and 24 in ONNX Runtime, with a past and without.",
    build=build,
    needs=("onnx", "onnxruntime"),
    documented=("mask_polarity", "corner", "dead_row"),
)
