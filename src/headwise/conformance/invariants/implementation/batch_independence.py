"""I21: a row of the batch gives what it gives alone; who else is there does not matter."""

from functools import lru_cache

import torch

from headwise.attention.position import Rotary
from headwise.axes import Tensor
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import (
    make_layer_problem,
    make_problem,
    option_problems,
    padding_mask,
    standard_layer_problems,
    standard_problems,
)
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    batch = problem.shape[0]
    if batch < 2:
        return None
    whole, allow = subject.attend(problem).output, 2 * tolerance(subject, problem).output
    for b in range(0, batch, max(batch // 3, 1)):
        single, real = alone(problem, b)
        rows = (slice(b, b + 1), real) if isinstance(problem, LayerProblem) else (slice(b, b + 1), slice(None), real)
        exactly = "batch_invariance" in subject.supports and single.shape[3] == problem.shape[3]
        why = f"Row {b} of the batch gives something else alone{'' if single.shape[3] == problem.shape[3] else ', without its padding'}."
        found = mismatch(single, subject.attend(single).output, whole[rows], 0.0 if exactly else allow[rows], why)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=2048)
def alone(problem, b: int) -> tuple:
    """One row of the batch without its padding, and what is said about it; and which of its queries are left."""
    of_layer = isinstance(problem, LayerProblem)
    named = ("x", "context", "mask", "bias") if of_layer else ("query", "key", "value", "mask", "bias")
    changes = {name: _row(getattr(problem, name), b, name in ("mask", "bias")) for name in named if getattr(problem, name) is not None}
    offset = problem.query_offset
    if offset is not None and torch.as_tensor(offset).dim():
        changes["query_offset"] = int(torch.as_tensor(offset)[b])  # pyright: ignore[reportArgumentType]
    single = problem.replace(**changes)
    real = _real(single)
    if real is None:
        return single, slice(None)
    planes = {name: plane[..., real] for name in ("mask", "bias") if (plane := getattr(single, name)) is not None and plane.shape[-1] > 1}
    if not of_layer:
        return single.replace(key=single.key[:, :, real], value=single.value[:, :, real], **planes), slice(None)
    planes = {name: plane[..., real, :] if plane.dim() > 1 and plane.shape[-2] > 1 else plane for name, plane in planes.items()}
    ends = torch.tensor(single.chunks, dtype=torch.int64).cumsum(0).clamp(real.start, real.stop) - real.start
    chunks = tuple(n for n in ends.diff(prepend=torch.zeros(1, dtype=torch.int64)).tolist() if n) if single.chunks else ()
    return single.replace(x=single.x[:, real], chunks=chunks, **planes), real


def _real(single) -> slice | None:
    """The keys between the padding on both sides; None where nothing can be cut off without moving queries against keys."""
    of_layer = isinstance(single, LayerProblem)
    moves = single.causal or single.window is not None or single.query_offset is not None
    if single.mask is None or (of_layer and (single.context is not None or single.query_offset is not None)) or (not of_layer and moves):
        return None
    seen = single.mask.reshape(-1, single.mask.shape[-1]).any(0).nonzero()[:, 0].tolist()
    return slice(seen[0], seen[-1] + 1) if seen and single.mask.shape[-1] > 1 else None


def _row(x: Tensor, b: int, plane: bool) -> Tensor:
    return x if plane and (x.dim() < 4 or len(x) == 1) else x[b : b + 1]


@fit_to_subject
def problems(level: CheckLevel):
    yield from (*standard_problems(level), option_problems()["33 samples"], option_problems()["offset per row"])
    yield from standard_layer_problems(level)
    yield make_problem(sink=random_normal(4, seed=114), mask=padding_mask(4, 4, 2), keys=4, seed=133)
    left = torch.arange(5) >= torch.tensor([3, 1])[:, None, None, None]
    yield make_layer_problem(causal=True, mask=left, chunks=(3, 1, 1), position=Rotary(), sizes={"head_dim": 4}, seed=132)


ENTRY = Invariant(
    code="I21",
    statement="A row of the batch gives what it gives alone: to the bit where that is claimed, else within rounding.",
    formula="attend(q, k, v)[b] = attend(q[b], k[b], v[b])",
    when="the batch has two rows or more",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
