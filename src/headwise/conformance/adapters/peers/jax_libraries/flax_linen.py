"""flax: `flax.linen.dot_product_attention`."""

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.jax_backend import DTYPES, torch_of
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """Axes are [B, T, H, D]; causality is a mask of the caller's (`make_causal_mask`), and there is no scale."""
    import flax.linen

    tensors = {name: getattr(problem, name).transpose(1, 2) for name in ("query", "key", "value")}
    planes = {name: plane if plane is None else plane.broadcast_to(problem.shape) for name, plane in (("bias", problem.bias), ("mask", problem.mask))}
    return torch_of(flax.linen.dot_product_attention, tensors | planes).transpose(1, 2)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"mask", "bias", *ABILITIES}) - {"groups", "weights", "lse", "offset_by_row", "empty"}
    conventions = Conventions(dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("flax_linen", compute, supports, conventions, DTYPES),)


ENTRY = Peer(
    statement="flax.linen.dot_product_attention.",
    build=build,
    needs=("flax",),
    documented=("mask_polarity",),
    handles=("flax.linen.attention:dot_product_attention",),
)
