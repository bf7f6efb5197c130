"""equinox: `equinox.nn.MultiheadAttention`, whose maps are put in so that q, k and v pass through."""

from typing import Any

import torch

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES, Refused
from headwise.subjects.call import CallSubject
from headwise.subjects.jax_bridge import to_jax, torch_of
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """One text at a time, [T, M]; True in a mask means that a key may be seen; causality is a mask of the caller's."""
    import equinox
    import jax
    import jax.numpy as jnp

    batch, heads, _, keys = problem.shape
    width, wide = problem.query.shape[3], problem.value.shape[3]
    if not all(bool(x.isfinite().all()) for x in (problem.query, problem.key, problem.value)):
        raise Refused("what is not finite is spread by the maps of a module.")
    if not keys:
        raise Refused("a module has keys.")
    module = equinox.nn.MultiheadAttention(
        heads, heads * width, value_size=heads * wide, output_size=heads * wide, qk_size=width, vo_size=wide, key=jax.random.PRNGKey(0)
    )
    module = equinox.tree_at(maps, module, [jnp.eye(heads * n, dtype=to_jax(problem.query[:0]).dtype) for n in (width, width, wide, wide)])
    mask = None if problem.mask is None else to_jax(problem.mask.broadcast_to(problem.shape))

    def attend(query: Any, key: Any, value: Any) -> Any:
        texts = [module(query[b], key[b], value[b], mask=None if mask is None else mask[b]) for b in range(batch)]
        return jnp.stack(texts)

    merged = [x.transpose(1, 2).flatten(2) for x in (problem.query, problem.key, problem.value)]
    return torch_of(attend, merged).unflatten(-1, (heads, wide)).transpose(1, 2)


def maps(module: Any) -> list[Any]:
    """Where the four maps are."""
    return [module.query_proj.weight, module.key_proj.weight, module.value_proj.weight, module.output_proj.weight]


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"mask", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "empty"}
    conventions = Conventions(dead_row="mean", weights="never")
    return (CallSubject("equinox_attention", compute, honours, conventions, (torch.float32, torch.float64)),)


ENTRY = Peer(statement="equinox.nn.MultiheadAttention.", build=build, needs=("equinox",), says=("mask_polarity",))
