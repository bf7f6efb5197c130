"""`jax.nn.dot_product_attention`, its reference implementation."""

from headwise.axes import Tensor
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.adapters.backends.jax_backend import DTYPES, torch_of
from headwise.conformance.adapters.peer import Peer
from headwise.conformance.answer import Answer, CallMode
from headwise.conformance.capabilities import ABILITIES
from headwise.conformance.conventions import Conventions
from headwise.conformance.problems.problem import Problem


def compute(problem: Problem, mode: CallMode) -> Answer:
    """Axes are [B, T, H, D]; a mask has True where a key may be seen; a window is a pair of how many tokens behind and ahead."""
    import jax

    names = ("query", "key", "value")
    tensors = {name: getattr(problem, name).transpose(1, 2) for name in names} | {name: whole(getattr(problem, name)) for name in ("bias", "mask")}
    window = None if problem.window is None else sides(problem)
    said = {"scale": problem.scale, "is_causal": problem.causal, "local_window_size": window, "implementation": "xla", "return_residual": True}
    output, lse = torch_of(jax.nn.dot_product_attention, tensors, **said)
    return Answer(output.transpose(1, 2), None, lse.transpose(1, 2))


def whole(plane: Tensor | None) -> Tensor | None:
    """Four axes."""
    return None if plane is None else plane[(None,) * (4 - plane.dim())]


def sides(problem: Problem) -> tuple[int, int]:
    """How far behind and ahead; what has no limit reaches over everything."""
    far = problem.shape[2] + problem.shape[3]
    left, right = (problem.window - 1, None) if isinstance(problem.window, int) else problem.window  # pyright: ignore[reportGeneralTypeIssues]
    return (far if left is None else left, far if right is None else right)


def build() -> tuple[CallSubject, ...]:
    supports = frozenset({"causal", "window", "mask", "bias", "scale", *ABILITIES}) - {"weights", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("jax_attention", compute, supports, conventions, DTYPES),)


ENTRY = Peer(
    statement="jax.nn.dot_product_attention, implementation xla.",
    build=build,
    needs=("jax",),
    documented=("mask_polarity",),
    handles=("jax._src.nn.functions:dot_product_attention",),
)
