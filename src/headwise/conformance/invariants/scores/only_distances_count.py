"""I12: positions are told by how far apart tokens stand: move a whole text and nothing changes, and distances do count."""

import torch
from torch.nn.functional import pad

from headwise.attention.position import NOPE
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, noise_like, room, rows
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers
from headwise.conformance.report.finding import Finding

MOVED = 3


def judge(subject, problem) -> Finding | None:
    if problem.position == NOPE:
        return None
    live, allow = rows(alive(subject, problem), problem), room(subject, problem).output
    here = ask(subject, problem).output
    found = differ(problem, here, problem.right(subject.conventions).output, allow, "Distances do not count as they should.", where=live)
    if found is not None or problem.context is not None or "mask" not in subject.honours:
        return found
    batch, _, _, keys = problem.shape
    mask = torch.ones(1, 1, 1, keys, dtype=torch.bool) if problem.mask is None else problem.mask[(None,) * (4 - problem.mask.dim())]
    sides = (MOVED, 0) if mask.shape[2] == 1 else (MOVED, 0, MOVED, 0)
    before = noise_like(problem.x.new_empty(batch, MOVED, problem.x.shape[2]), seed=95)
    chunks = (problem.chunks[0] + MOVED, *problem.chunks[1:]) if problem.chunks else ()
    bias = None if problem.bias is None else pad(problem.bias, (MOVED, 0, MOVED, 0))
    moved = problem.having(x=torch.cat([before, problem.x], 1), mask=pad(mask, sides, value=False), chunks=chunks, bias=bias)
    there = ask(subject, moved).output[:, MOVED:]
    return differ(problem, there, here, 2 * allow, f"The whole text was moved by {MOVED} positions, and it gave something else.", where=live)


@pooled
def problems(level: Level):
    yield from (entry for entry in layers().values() if entry.position != NOPE)


ENTRY = Law(
    code="I12",
    statement="Positions enter by distances alone: moving a whole text changes nothing, and distances count as they should.",
    formula="score(p + n, j + n) = score(p, j)",
    when="a layer has rotary positions, ALiBi or buckets of distances; which features turn together no such test can tell",
    judge=judge,
    problems=problems,
    levels=("layer",),
)
