"""flax: `flax.nnx.dot_product_attention`."""

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.jax_backend import DTYPES, torch_of
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, mode: CallMode) -> Tensor:
    """Axes are [B, T, H, D]; a mask and a bias are [B, H, T, S]; there is no scale."""
    import flax.nnx

    tensors = {name: getattr(problem, name).transpose(1, 2) for name in ("query", "key", "value")}
    planes = {name: plane if plane is None else plane.broadcast_to(problem.shape) for name, plane in (("bias", problem.bias), ("mask", problem.mask))}
    return torch_of(flax.nnx.dot_product_attention, tensors | planes, is_causal=problem.causal).transpose(1, 2)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "mask", "bias", *ABILITIES}) - {"weights", "lse", "offset_by_row", "empty", "value_width"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("flax_nnx", compute, supports, conventions, DTYPES),)


ENTRY = Peer(
    statement="flax.nnx.dot_product_attention.",
    build=build,
    needs=("flax",),
    documented=("mask_polarity",),
    handles=("flax.nnx.nn.attention:dot_product_attention",),
)
