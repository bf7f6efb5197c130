"""equinox: `equinox.nn.MultiheadAttention`, whose maps are put in so that q, k and v pass through."""

from typing import Any

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.jax_backend import DTYPES, torch_of
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem
from headwise.errors import NotSupported


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """One text at a time, [T, M]; True in a mask means that a key may be seen; causality is a mask of the caller's."""
    _, heads, _, keys = problem.shape
    if not all(bool(x.isfinite().all()) for x in (problem.query, problem.key, problem.value)):
        raise NotSupported("what is not finite is spread by the maps of a module.")
    if not keys:
        raise NotSupported("a module has keys.")
    tensors = {name: getattr(problem, name).transpose(1, 2).flatten(2) for name in ("query", "key", "value")}
    mask = None if problem.mask is None else problem.mask.broadcast_to(problem.shape)
    found = torch_of(attend, tensors | {"mask": mask}, heads=heads)
    return found.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(query: Any, key: Any, value: Any, mask: Any = None, heads: int = 1) -> Any:
    """The module whose maps multiply by 1, over a batch of texts."""
    import equinox
    import jax
    import jax.numpy as jnp

    model, whole = query.shape[-1], value.shape[-1]
    module = equinox.nn.MultiheadAttention(
        heads, model, value_size=whole, output_size=whole, qk_size=model // heads, vo_size=whole // heads, key=jax.random.PRNGKey(0)
    )
    module = equinox.tree_at(maps, module, [jnp.eye(n, dtype=query.dtype) for n in (model, model, whole, whole)])
    return jax.vmap(lambda q, k, v, seen: module(q, k, v, mask=seen))(query, key, value, mask)


def maps(module: Any) -> list[Any]:
    """Where the four maps are."""
    return [module.query_proj.weight, module.key_proj.weight, module.value_proj.weight, module.output_proj.weight]


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"mask", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "empty"}
    conventions = Conventions(dead_row="mean", weights="never")
    return (CallSubject("equinox_attention", compute, supports, conventions, DTYPES),)


ENTRY = Peer(statement="equinox.nn.MultiheadAttention.", build=build, needs=("equinox",), documented=("mask_polarity",))
