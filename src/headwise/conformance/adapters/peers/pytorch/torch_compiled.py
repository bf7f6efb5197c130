"""`torch.compile`d code: the formula written out, and scaled_dot_product_attention, each compiled as a whole for any size.

A graph is made for each set of flags, with gradients and without, which takes seconds. Each dtype and each order of strides would have graphs of its own:
so they are compiled in float32 only, and tensors come contiguous.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import ArgumentError

BACKENDS = ("inductor", "aot_eager", "eager")


def formula(query: Tensor, key: Tensor, value: Tensor, causal: bool, mask: Tensor | None, scale: Tensor) -> Tensor:
    """softmax(scale · q·kᵀ, -inf where hidden) · v in the words of any textbook."""
    scores = query @ key.mT * scale
    if causal:
        scores = scores.masked_fill(~triangle(query.shape[2], key.shape[2], query.device), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ value


def fused(query: Tensor, key: Tensor, value: Tensor, causal: bool, mask: Tensor | None, scale: Tensor) -> Tensor:
    """The same by torch's function; all that hides is in its mask, since its own triangle sits in the other corner."""
    if causal:
        seen = triangle(query.shape[2], key.shape[2], query.device)
        mask = seen if mask is None else mask & seen
    return scaled_dot_product_attention(query * scale, key, value, attn_mask=mask, scale=1.0)


def triangle(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where the last query stands at the last key, and a query sees none after its own."""
    return torch.arange(keys, device=device) <= torch.arange(queries, device=device)[:, None] + keys - queries


@lru_cache
def compiled(function: Callable[..., Tensor], backend: str) -> Callable[..., Tensor]:
    """One graph, no fallback."""
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=True)


def compute(function: Callable[..., Tensor], backend: str, problem: Problem, mode: CallMode) -> Tensor:
    """A graph is made for any sizes; those of 1, and those that are alike, have graphs of their own, as torch.compile has it: no limit to their number."""
    from torch._dynamo import config as dynamo

    query, ratio = problem.query, problem.query.shape[1] // max(problem.key.shape[1], 1)
    key, value = ((x if ratio == 1 else x.repeat_interleave(ratio, 1)).contiguous() for x in (problem.key, problem.value))
    mask = None if problem.mask is None else problem.mask.expand(problem.shape).contiguous()
    scale = torch.tensor(query.shape[3] ** -0.5 if problem.scale is None else problem.scale, dtype=query.dtype)
    with dynamo.patch(recompile_limit=4096, accumulated_recompile_limit=4096):
        return compiled(function, backend)(query.contiguous(), key, value, problem.causal, mask, scale)


def build(backend: str = "inductor") -> tuple[CallSubject, ...]:
    """Compiled by one backend of torch.compile.

    Args:
        backend: inductor needs a C++ compiler; aot_eager traces and runs the graph without one.
    """
    if backend not in BACKENDS:
        raise ArgumentError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}. Choose one of them.")
    supports = frozenset({"causal", "mask", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "empty"}
    return tuple(
        CallSubject(
            f"{function.__name__}, {backend}",
            partial(compute, function, backend),
            supports,
            conventions,
            (torch.float32,),
        )
        for function, conventions in (
            (formula, Conventions(dead_row="nan", hidden_nonfinite="leaks", weights="never")),
            (fused, Conventions(dead_row="zero", hidden_nonfinite="leaks", weights="never")),
        )
    )


ENTRY = Peer(statement="torch.compile of the formula, and of scaled_dot_product_attention.", build=build, documented=("dead_row",))
