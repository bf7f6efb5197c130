"""I21: a row of the batch gives what it gives alone; who else is there does not matter."""

import torch

from headwise.axes import Tensor
from headwise.proof.finding import Finding
from headwise.proof.fit import pooled
from headwise.proof.judging import ask, differ, room
from headwise.proof.law import Law, Level
from headwise.proof.layer_problem import LayerProblem
from headwise.proof.pool import layers, odd_ones, settings


def judge(subject, problem) -> Finding | None:
    batch = problem.shape[0]
    if batch < 2:
        return None
    whole, allow = ask(subject, problem).output, 2 * room(subject, problem).output
    if "batch_invariance" in subject.honours:
        allow = torch.zeros_like(allow)
    for b in range(0, batch, max(batch // 3, 1)):
        found = differ(
            alone(problem, b), ask(subject, alone(problem, b)).output, whole[b : b + 1], allow[b : b + 1], f"Row {b} of the batch gives something else alone."
        )
        if found is not None:
            return found
    return None


def alone(problem, b: int):
    """One row of the batch, and what is said about it."""
    named = ("x", "context", "mask", "bias") if isinstance(problem, LayerProblem) else ("query", "key", "value", "mask", "bias")
    changes = {name: _row(getattr(problem, name), b, name in ("mask", "bias")) for name in named if getattr(problem, name) is not None}
    offset = problem.query_offset
    if offset is not None and torch.as_tensor(offset).dim():
        changes["query_offset"] = int(torch.as_tensor(offset)[b])
    return problem.having(**changes)


def _row(x: Tensor, b: int, plane: bool) -> Tensor:
    if plane and (x.dim() < 4 or len(x) == 1):
        return x
    return x[b : b + 1]


@pooled
def problems(level: Level):
    yield from (*settings(level), odd_ones()["many rows"], odd_ones()["offset a row"])
    yield from layers().values()


ENTRY = Law(
    code="I21",
    statement="A row of the batch gives what it gives alone: to the bit where that is claimed, else within rounding.",
    formula="attend(q, k, v)[b] = attend(q[b], k[b], v[b])",
    when="the batch has two rows or more",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
