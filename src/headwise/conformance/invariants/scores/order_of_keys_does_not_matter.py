"""I09: attention is a set operation. Shuffle the keys and nothing changes; where positions count, shuffling must show."""

from functools import lru_cache

import torch

from headwise.attention.position import NOPE, Rotary
from headwise.axes import Tensor
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import ask, differ, room
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer, layer_settings, odd_ones, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.causal or problem.window is not None or getattr(problem, "chunks", ()):
        return None
    order, other = shuffled(problem)
    found, allow = ask(subject, other).output, 2 * room(subject, problem).output
    own = isinstance(problem, LayerProblem) and problem.context is None
    if isinstance(problem, LayerProblem) and problem.position != NOPE:
        right = other.right(subject.conventions).output
        return differ(problem, found, right, allow.amax(), f"Tokens were put in the order {order.tolist()}, and positions did not count as they should.")
    before = ask(subject, problem).output
    right = before[:, order] if own else before
    allow = allow[:, order] if own else allow
    return differ(problem, found, right, allow, f"Keys were put in the order {order.tolist()}, and the output is not the same.")


@lru_cache(maxsize=1024)
def shuffled(problem):
    """Keys in another order, and what is said about each with them; in self-attention queries too. And the order."""
    order = torch.randperm(problem.shape[3], generator=torch.Generator().manual_seed(problem.shape[3]))
    own = isinstance(problem, LayerProblem) and problem.context is None
    planes = {name: _columns(getattr(problem, name), order, own) for name in ("mask", "bias") if getattr(problem, name) is not None}
    if isinstance(problem, LayerProblem):
        return order, problem.having(x=problem.x[:, order], **planes) if own else problem.having(context=problem.context[:, order], **planes)
    return order, problem.having(key=problem.key[:, :, order], value=problem.value[:, :, order], **planes)


def _columns(plane: Tensor, order: Tensor, rows: bool) -> Tensor:
    plane = plane[..., order] if plane.shape[-1] > 1 else plane
    return plane[..., order, :] if rows and plane.dim() > 1 and plane.shape[-2] > 1 else plane


@pooled
def problems(level: Level):
    yield from (witnesses()[name] for name in ("plain", "padding", "mask by head"))
    yield from (sizes()["eight heads"], odd_ones()["bias"], odd_ones()["sink"], odd_ones()["softcap"], problem(queries=4, heads=3, groups=3, seed=49))
    yield problem(2, 3, 3, 4, 4, seed=130)
    yield layer(tokens=2, context=3, seed=50)
    yield layer(position=Rotary(base=10.0), sizes={"width": 4}, seed=131)
    yield from layer_settings(level)


ENTRY = Law(
    code="I09",
    statement="The order of the keys does not matter; with positions it does, and as they say.",
    formula="attend(q, k[π], v[π]) = attend(q, k, v)",
    when="neither causality nor a window tells keys apart",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
