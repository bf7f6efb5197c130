"""I03: a head writes through its own rows of w_o, and through no others. M3 proves it of the algebra; this asks an implementation."""

from functools import lru_cache

import torch

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.perturbations import only_head
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import layer_problems


def judge(subject, problem) -> Finding | None:
    b_o, where = problem.params.b_o, attending_rows(subject, problem).all(1)[..., None]
    total = torch.zeros((), dtype=torch.float64) if b_o is None else b_o.double()
    for head in range(problem.shape[1]):
        alone = by_one_head(problem, head)
        found = subject.attend(alone).output
        right = alone.expected(subject.conventions).output
        why = f"With only the rows of head {head} left in w_o, the output is not what head {head} writes."
        gap = mismatch(alone, found, right, tolerance(subject, alone).output, why, where=where)
        if gap is not None:
            return gap
        total = total + found.double() - (0.0 if b_o is None else b_o.double())
    allow = 4 * problem.shape[1] * tolerance(subject, problem).output
    whole = subject.attend(problem, PLAIN)
    gap = mismatch(problem, whole.output, total, allow, "The output is not the sum of what each head writes on its own.", where=where)
    return gap or (_told(subject, problem, where) if "weights" in subject.supports else None)


@lru_cache(maxsize=1024)
def by_one_head(problem, head: int):
    """The layer of which only one head writes."""
    return problem.replace(w_o=only_head(problem.params.w_o, head))


def _told(subject, problem, where) -> Finding | None:
    """Where the subject tells what each head writes, these are the parts of its output."""
    found = subject.attend(problem, WITH_WEIGHTS)
    if found.writes is None:
        return None
    b_o = 0.0 if problem.params.b_o is None else problem.params.b_o.double()
    parts = [by_one_head(problem, head).expected(subject.conventions).output - b_o for head in range(problem.shape[1])]
    allow = tolerance(subject, problem).output[:, None]
    return mismatch(problem, found.writes, torch.stack(parts, 1), allow, "What is told of each head is not what the head writes.", WITH_WEIGHTS, where[:, None])


@fit_to_subject
def problems(level: CheckLevel):
    yield from (layer_problems()[name] for name in ("plain", "everything", "rotary", "cross-attention", "one head"))


ENTRY = Invariant(
    code="I03",
    statement="Each head writes through its own rows of w_o, and the output is the sum of what the heads write.",
    formula="out = Σ_h z_h · w_o[h] + b_o",
    when="the maps of the layer can be changed",
    judge=judge,
    problems=problems,
    needs=frozenset({"settable"}),
    levels=("layer",),
)
