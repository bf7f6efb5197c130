"""x-transformers: its `Attend`, the step from q, k and v to the output."""

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """True in a mask means that a key may be seen; the path "flash" goes through torch's fused function."""
    from x_transformers.attend import Attend

    heads, causal, keys = problem.query.shape[1], problem.causal, problem.key.shape[1]
    module = Attend(causal=causal, scale=problem.scale, flash=how.path == "flash", heads=heads).eval()
    ratio = heads // max(keys, 1)
    key, value = (x.repeat_interleave(ratio, 1) for x in (problem.key, problem.value))
    mask = None if problem.mask is None else problem.mask.broadcast_to(problem.shape)
    bias = None if problem.bias is None else problem.bias.broadcast_to(problem.shape)
    return module(problem.query, key, value, mask=mask, attn_bias=bias)[0]


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"causal", "mask", "bias", "scale", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "empty"}
    conventions = Conventions(dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("x_transformers", compute, honours, conventions, (torch.float32, torch.float64, torch.bfloat16), paths=("flash",)),)


ENTRY = Peer(statement="Attend of x-transformers, eager and flash.", build=build, needs=("x_transformers",), says=("mask_polarity",))
