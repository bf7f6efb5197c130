"""I09: attention is a set operation. Shuffle the keys and nothing changes; where positions count, shuffling must show."""

from functools import lru_cache

import torch

from headwise.attention.position import NOPE, Rotary
from headwise.axes import Tensor
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_layer_problem, make_problem, option_problems, size_problems, standard_layer_problems


def judge(subject, problem) -> Finding | None:
    if problem.causal or problem.window is not None or getattr(problem, "chunks", ()):
        return None
    order, other = shuffled(problem)
    found, allow = subject.attend(other).output, 2 * tolerance(subject, problem).output
    own = isinstance(problem, LayerProblem) and problem.context is None
    if isinstance(problem, LayerProblem) and problem.position != NOPE:
        right = other.expected(subject.conventions).output
        return mismatch(problem, found, right, allow.amax(), f"Tokens were put in the order {order.tolist()}, and positions did not count as they should.")
    before = subject.attend(problem).output
    right = before[:, order] if own else before
    allow = allow[:, order] if own else allow
    return mismatch(problem, found, right, allow, f"Keys were put in the order {order.tolist()}, and the output is not the same.")


@lru_cache(maxsize=1024)
def shuffled(problem):
    """Keys in another order, and what is said about each with them; in self-attention queries too. And the order."""
    order = torch.randperm(problem.shape[3], generator=torch.Generator().manual_seed(problem.shape[3]))
    own = isinstance(problem, LayerProblem) and problem.context is None
    planes = {name: _columns(getattr(problem, name), order, own) for name in ("mask", "bias") if getattr(problem, name) is not None}
    if isinstance(problem, LayerProblem):
        return order, problem.replace(x=problem.x[:, order], **planes) if own else problem.replace(context=problem.context[:, order], **planes)
    return order, problem.replace(key=problem.key[:, :, order], value=problem.value[:, :, order], **planes)


def _columns(plane: Tensor, order: Tensor, rows: bool) -> Tensor:
    plane = plane[..., order] if plane.shape[-1] > 1 else plane
    return plane[..., order, :] if rows and plane.dim() > 1 and plane.shape[-2] > 1 else plane


@fit_to_subject
def problems(level: CheckLevel):
    yield from (core_problems()[name] for name in ("plain", "padding", "mask by head"))
    yield from (
        size_problems()["eight heads"],
        option_problems()["bias"],
        option_problems()["sink"],
        option_problems()["softcap"],
        make_problem(queries=4, heads=3, groups=3, seed=49),
    )
    yield make_problem(2, 3, 3, 4, 4, seed=130)
    yield make_layer_problem(tokens=2, context=3, seed=50)
    yield make_layer_problem(position=Rotary(base=10.0), sizes={"head_dim": 4}, seed=131)
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="I09",
    statement="The order of the keys does not matter; with positions it does, and as they say.",
    formula="attend(q, k[π], v[π]) = attend(q, k, v)",
    when="neither causality nor a window tells keys apart",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
