"""ONNX Runtime: com.microsoft GroupQueryAttention, on the CPU: causal, grouped heads, a past, windows, sinks."""

from typing import Any

import torch

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.onnx_backend import PRESENT, apart, full, merged, plane, run
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.plane_slicing import with_queries, with_rows
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported

WIDE = 8  # numbers of a head, or a multiple


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """Heads lie side by side, [B, T, H·D]; it is always causal, and keys before the first query are the past."""
    batch, heads, queries, keys = problem.shape
    past = keys - queries
    if not problem.causal or past < 0 or problem.query.shape[3] % WIDE:
        raise NotSupported("the operator is always causal, has a key for every query, and heads of 8, 16, … numbers.")
    if isinstance(problem.window, tuple):
        raise NotSupported("the operator knows windows behind the query only.")
    if past and queries > 1 and batch > 1:
        raise NotSupported("the operator goes on with a past for one text, or by one token.")
    cached = [problem.key[:, :, :past], problem.value[:, :, :past]]
    tensors = [merged(x) for x in (problem.query, problem.key[:, :, past:], problem.value[:, :, past:])]
    last, total = torch.full((batch,), keys - 1, dtype=torch.int32), torch.tensor([keys], dtype=torch.int32)
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": problem.key.shape[1]}
    named = {"scale": problem.scale, "softcap": problem.softcap, "local_window_size": problem.window}
    attributes |= {name: value for name, value in named.items() if value is not None}
    added = plane(problem)
    added = None if added is None else full(added).expand(-1, -1, queries, keys)
    inputs = [*tensors, *(cached if past else (None, None)), last, total, None, None, None, added, problem.sink]
    return apart(run("GroupQueryAttention", "com.microsoft", 23, inputs, attributes, ("output", *PRESENT)), heads)


def cut(problem: Problem) -> Problem:
    """A problem that the operator takes: causal, heads of 8 numbers, a window behind the query, a past for one text or one token."""
    batch, _, queries, keys = problem.shape
    if queries > keys:
        problem = with_queries(problem, list(range(queries - keys, queries)))
    if keys > queries > 1 < batch:
        problem = with_rows(problem, [0])
    names = ("query", "key", "value") if problem.query.shape[3] % WIDE else ()
    wider = {name: torch.cat([getattr(problem, name)] * WIDE, -1)[..., :WIDE].contiguous() for name in names}
    window = problem.window[0] + 1 if isinstance(problem.window, tuple) and problem.window[0] is not None else problem.window
    return problem.replace(causal=True, window=None if isinstance(window, tuple) else window, **wider)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "window", "mask", "bias", "scale", "softcap", "sink", "groups", "mask_by_head"})
    conventions = Conventions(weights="never", hidden_nonfinite="leaks")
    return (CallSubject("onnx_grouped", compute, supports, conventions, (torch.float32,), cut=cut),)


ENTRY = Peer(
    statement="com.microsoft GroupQueryAttention in ONNX Runtime, with a past and without.",
    build=build,
    needs=("onnx", "onnxruntime"),
    documented=("corner",),
)
