"""I12: positions are told by how far apart tokens stand: move a whole text and nothing changes, and distances do count."""

import torch
from torch.nn.functional import pad

from headwise.attention.position import NOPE
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import layer_problems
from headwise.conformance.problems.random_tensors import noise_like

MOVED = 3


def judge(subject, problem) -> Finding | None:
    if problem.position == NOPE:
        return None
    attending, allow = output_rows(attending_rows(subject, problem), problem), tolerance(subject, problem).output
    here = subject.attend(problem).output
    found = mismatch(problem, here, problem.expected(subject.conventions).output, allow, "Distances do not count as they should.", where=attending)
    if found is not None or problem.context is not None or "mask" not in subject.supports:
        return found
    batch, _, _, keys = problem.shape
    mask = torch.ones(1, 1, 1, keys, dtype=torch.bool) if problem.mask is None else problem.mask[(None,) * (4 - problem.mask.dim())]
    sides = (MOVED, 0) if mask.shape[2] == 1 else (MOVED, 0, MOVED, 0)
    before = noise_like(problem.x.new_empty(batch, MOVED, problem.x.shape[2]), seed=95)
    chunks = (problem.chunks[0] + MOVED, *problem.chunks[1:]) if problem.chunks else ()
    bias = None if problem.bias is None else pad(problem.bias, (MOVED, 0, MOVED, 0))
    moved = problem.replace(x=torch.cat([before, problem.x], 1), mask=pad(mask, sides, value=False), chunks=chunks, bias=bias)
    there = subject.attend(moved).output[:, MOVED:]
    return mismatch(problem, there, here, 2 * allow, f"The whole text was moved by {MOVED} positions, and it gave something else.", where=attending)


@fit_to_subject
def problems(level: CheckLevel):
    yield from (entry for entry in layer_problems().values() if entry.position != NOPE)


ENTRY = Invariant(
    code="I12",
    statement="Positions enter by distances alone: moving a whole text changes nothing, and distances count as they should.",
    formula="score(p + n, j + n) = score(p, j)",
    when="a layer has rotary positions, ALiBi or buckets of distances; which features turn together no such test can tell",
    judge=judge,
    problems=problems,
    levels=("layer",),
)
