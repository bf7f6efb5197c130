"""flax: `flax.linen.dot_product_attention`."""

from typing import Any

from headwise.axes import Tensor
from headwise.proof.answer import How
from headwise.proof.conventions import Conventions
from headwise.proof.problem import Problem
from headwise.proof.subject import ABILITIES
from headwise.subjects.call import CallSubject
from headwise.subjects.jax_bridge import to_jax, torch_of
from headwise.subjects.peer import Peer


def compute(problem: Problem, how: How) -> Tensor:
    """Axes are [B, T, H, D]; causality is a mask of the caller's (`make_causal_mask`), and there is no scale."""
    import flax.linen

    tensors = [x.transpose(1, 2) for x in (problem.query, problem.key, problem.value)] + (
        [] if problem.bias is None else [problem.bias.broadcast_to(problem.shape)]
    )
    mask = None if problem.mask is None else to_jax(problem.mask.broadcast_to(problem.shape))

    def attend(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        return flax.linen.dot_product_attention(query, key, value, bias=bias, mask=mask)

    return torch_of(attend, tensors).transpose(1, 2)


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"mask", "bias", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "empty", "value_width"}
    conventions = Conventions(dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("flax_linen", compute, honours, conventions),)


ENTRY = Peer(
    statement="flax.linen.dot_product_attention.",
    build=build,
    needs=("flax",),
    says=("mask_polarity",),
    stands_for=("flax.linen.attention:dot_product_attention",),
)
