"""I03: a head writes through its own rows of w_o, and through no others. M3 proves it of the algebra; this asks an implementation."""

from functools import lru_cache

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.perturbations import only
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    b_o, where = problem.params.b_o, alive(subject, problem).all(1)[..., None]
    total = 0.0 if b_o is None else b_o.double()
    for head in range(problem.shape[1]):
        alone = by_one_head(problem, head)
        found = ask(subject, alone).output
        right = alone.right(subject.conventions).output
        why = f"With only the rows of head {head} left in w_o, the output is not what head {head} writes."
        gap = differ(alone, found, right, room(subject, alone).output, why, where=where)
        if gap is not None:
            return gap
        total = total + found.double() - (0.0 if b_o is None else b_o.double())
    allow = 4 * problem.shape[1] * room(subject, problem).output
    whole = ask(subject, problem, PLAINLY)
    gap = differ(problem, whole.output, total, allow, "The output is not the sum of what each head writes on its own.", where=where)
    return gap or (_told(subject, problem, where) if "weights" in subject.honours else None)


@lru_cache(maxsize=1024)
def by_one_head(problem, head: int):
    """The layer of which only one head writes."""
    return problem.having(w_o=only(problem.params.w_o, head))


def _told(subject, problem, where) -> Finding | None:
    """Where the subject tells what each head writes, these are the parts of its output."""
    found = ask(subject, problem, WEIGHTS)
    if found.writes is None:
        return None
    b_o = 0.0 if problem.params.b_o is None else problem.params.b_o.double()
    parts = [by_one_head(problem, head).right(subject.conventions).output - b_o for head in range(problem.shape[1])]
    allow = room(subject, problem).output[:, None]
    return differ(problem, found.writes, torch.stack(parts, 1), allow, "What is told of each head is not what the head writes.", WEIGHTS, where[:, None])


@pooled
def problems(level: Level):
    yield from (layers()[name] for name in ("plain", "everything", "rotary", "looking elsewhere", "one head"))


ENTRY = Law(
    code="I03",
    statement="Each head writes through its own rows of w_o, and the output is the sum of what the heads write.",
    formula="out = Σ_h z_h · w_o[h] + b_o",
    when="the maps of the layer can be changed",
    judge=judge,
    problems=problems,
    needs=frozenset({"settable"}),
    levels=("layer",),
)
