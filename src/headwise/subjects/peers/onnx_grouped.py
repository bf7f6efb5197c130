"""ONNX Runtime: com.microsoft GroupQueryAttention, on the CPU: causal, grouped heads, texts of their own lengths."""

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import Refused
from headwise.subjects.call import CallSubject
from headwise.subjects.onnx_run import run
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """Heads lie side by side, [B, T, H·D]; always causal, with T = S where there is no cache."""
    batch, heads, queries, keys = problem.shape
    if not problem.causal or queries != keys or problem.query.shape[3] % 8:
        raise Refused("the operator is always causal, has a key for every query, and heads of 8, 16, … numbers.")
    if isinstance(problem.window, tuple):
        raise Refused("the operator knows windows behind the query only.")
    merged = [x.transpose(1, 2).flatten(2) for x in (problem.query, problem.key, problem.value)]
    last, total = torch.full((batch,), keys - 1, dtype=torch.int32), torch.tensor([keys], dtype=torch.int32)
    attributes = {"num_heads": heads, "kv_num_heads": problem.key.shape[1]}
    attributes |= {} if problem.scale is None else {"scale": problem.scale}
    attributes |= {} if problem.softcap is None else {"softcap": problem.softcap}
    attributes |= {} if problem.window is None else {"local_window_size": problem.window}
    found = run("GroupQueryAttention", "com.microsoft", 23, [*merged, None, None, last, total], attributes)
    return found.unflatten(-1, (heads, -1)).transpose(1, 2)


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"causal", "window", "scale", "softcap", "groups"})
    return (CallSubject("onnx_grouped", compute, honours, Conventions(weights="never"), (torch.float32,)),)


ENTRY = Peer(statement="com.microsoft GroupQueryAttention in ONNX Runtime.", build=build, needs=("onnx", "onnxruntime"), says=("corner",))
