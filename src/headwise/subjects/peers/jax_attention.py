"""`jax.nn.dot_product_attention`, its reference implementation."""

from functools import partial
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
    """Axes are [B, T, H, D]; a mask has True where a key may be seen; a window is a pair of how many tokens behind and ahead."""
    import jax

    names = ["query", "key", "value", *(["bias"] if problem.bias is not None else [])]
    tensors = [getattr(problem, name) if name == "bias" else getattr(problem, name).transpose(1, 2) for name in names]
    said: dict[str, Any] = {"scale": problem.scale, "is_causal": problem.causal, "implementation": "xla"}
    if problem.mask is not None:
        said["mask"] = to_jax(whole(problem.mask))
    if problem.window is not None:
        said["local_window_size"] = sides(problem)

    def attend(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        return jax.nn.dot_product_attention(query, key, value, bias=bias, **said)

    tensors = [whole(x) if name == "bias" else x for name, x in zip(names, tensors, strict=True)]
    return torch_of(partial(attend), tensors).transpose(1, 2)


def whole(plane: Tensor) -> Tensor:
    """Four axes."""
    return plane[(None,) * (4 - plane.dim())]


def sides(problem: Problem) -> tuple[int, int]:
    """How far behind and ahead; what has no limit reaches over everything."""
    far = problem.shape[2] + problem.shape[3]
    left, right = (problem.window - 1, None) if isinstance(problem.window, int) else problem.window
    return (far if left is None else left, far if right is None else right)


def build() -> tuple[CallSubject, ...]:
    honours = frozenset({"causal", "window", "mask", "bias", "scale", *ABILITIES}) - {"weights", "lse", "offset_by_row", "value_width", "empty"}
    conventions = Conventions(corner="top-left", dead_row="mean", hidden_nonfinite="leaks", weights="never")
    return (CallSubject("jax_attention", compute, honours, conventions),)


ENTRY = Peer(
    statement="jax.nn.dot_product_attention, implementation xla.",
    build=build,
    needs=("jax",),
    says=("mask_polarity",),
    stands_for=("jax._src.nn.functions:dot_product_attention",),
)
