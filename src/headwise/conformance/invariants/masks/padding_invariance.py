"""I08: tokens that are only there to fill up the batch change nothing, on whichever side they stand."""

from functools import lru_cache
from typing import Any

import torch
from torch.nn.functional import pad

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, size_problems, standard_layer_problems
from headwise.conformance.problems.random_tensors import noise_like

MORE = 2


def judge(subject, problem) -> Finding | None:
    if isinstance(problem, LayerProblem) and problem.context is not None:
        return None
    batch, _, queries, _ = problem.shape
    left = tuple((row + 1) % (MORE + 1) for row in range(batch))  # each row of the batch is moved by another distance
    longer = padded(problem, left)
    why = f"{MORE} tokens were added to each text and hidden by the mask, and its own tokens gave something else."
    found = subject.attend(longer, PLAIN).output
    axis = 1 if isinstance(problem, LayerProblem) else 2
    kept = torch.stack([row.narrow(axis - 1, start, queries) for row, start in zip(found, left, strict=True)]) if batch else found
    right = subject.attend(problem).output
    counts = (
        output_rows(attending_rows(subject, problem), problem) if subject.conventions.dead_row == "mean" else None
    )  # a mean of all values is of the new ones too
    return mismatch(longer, kept, right, 2 * tolerance(subject, problem).output, why, where=counts)


@lru_cache(maxsize=1024)
def padded(problem: Any, left: tuple[int, ...]) -> Any:
    """The same texts with MORE tokens, so many of them before the first."""
    batch, _, queries, keys = problem.shape
    mask = torch.ones(batch, 1, 1, keys, dtype=torch.bool) if problem.mask is None else problem.mask
    mask = whole(mask, batch, queries if mask.dim() > 1 and mask.shape[-2] > 1 else 1, keys)
    changes: dict[str, Any] = {"mask": torch.stack([_plane(row, start) for row, start in zip(mask, left, strict=True)])}
    if problem.bias is not None:
        bias = whole(problem.bias, batch, queries, keys)
        changes["bias"] = torch.stack([_plane(row, start) for row, start in zip(bias, left, strict=True)])
    if isinstance(problem, LayerProblem):
        changes["chunks"] = (problem.chunks[0] + MORE, *problem.chunks[1:]) if problem.chunks else ()
    for name in ("x",) if isinstance(problem, LayerProblem) else ("query", "key", "value"):
        changes[name] = torch.stack([_tokens(row, start) for row, start in zip(getattr(problem, name), left, strict=True)])
    return problem.replace(**changes)


def whole(plane: torch.Tensor, batch: int, queries: int, keys: int) -> torch.Tensor:
    """All rows of the batch, all these queries and keys; one head where all are alike."""
    plane = plane[(None,) * (4 - plane.dim())]
    return plane.expand(batch, plane.shape[1], queries, keys)


def _tokens(row: torch.Tensor, left: int) -> torch.Tensor:
    fill = noise_like(row.new_empty(*row.shape[:-2], MORE, row.shape[-1]), seed=93)
    return torch.cat([fill[..., :left, :], row, fill[..., left:, :]], -2)


def _plane(row: torch.Tensor, left: int) -> torch.Tensor:
    sides = (left, MORE - left)
    return pad(row, sides if row.shape[-2] == 1 and row.dtype == torch.bool else (*sides, *sides), value=0)


@fit_to_subject
def problems(level: CheckLevel):
    yield from (*core_problems().values(), size_problems()["square"], size_problems()["one head"], size_problems()["eight heads"])
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="I08",
    statement="Padding that the mask hides changes nothing for the real tokens, before them or after them.",
    formula="attend([pad, x, pad], mask) = attend(x) at the rows of x",
    when="a mask can be given; each row of the batch is padded differently",
    judge=judge,
    problems=problems,
    needs=frozenset({"mask"}),
    levels=("call", "layer"),
)
