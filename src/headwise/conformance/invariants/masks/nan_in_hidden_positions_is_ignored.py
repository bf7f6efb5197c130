"""N3: NaN or infinity in a hidden key or value stays out, where it is declared to; a large number stays out everywhere."""

from functools import lru_cache

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, padding_mask
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    visible = problem.visible(subject.conventions)
    attending, before, allow = attending_rows(subject, problem), subject.attend(problem).output, 2 * tolerance(subject, problem).output
    hidden = [j for j in range(problem.shape[3]) if not bool(visible[..., j].all())]
    if not hidden:
        return None
    large = 1e10 if torch.finfo(problem.query.dtype).max > 1e11 else 1e4
    poisons = (large, torch.inf, torch.nan) if subject.conventions.hidden_nonfinite == "absent" else (large,)
    j = hidden[-1]
    for poison in poisons:
        for name in ("key", "value"):
            bad = poisoned(problem, name, j, poison)
            blind = (attending & ~visible[..., j])[..., None]
            why = f"The hidden {name} {j} holds {poison}, and it reached a query that may not see it."
            found = mismatch(bad, subject.attend(bad).output, before, allow, why, where=blind)
            if found is None and "gradients" in subject.supports and poison != poison:
                found = _gradient(subject, bad, blind, why)
            if found is not None:
                return found
    return None


@lru_cache(maxsize=2048)
def poisoned(problem, name: str, j: int, poison: float):
    tensor = getattr(problem, name).clone()
    tensor[:, :, j] = poison
    return problem.replace(**{name: tensor})


def _gradient(subject, bad, blind, why: str) -> Finding | None:
    """A loss on the rows that don't see it has a finite gradient in the queries."""
    upstream = random_normal(*bad.shape[:3], bad.value.shape[3], seed=105).to(bad.query) * blind
    mode = CallMode(upstream=upstream)
    slope = subject.attend(bad, mode).gradients["query"]
    return mismatch(bad, slope.isfinite().double(), torch.ones_like(slope, dtype=torch.float64), 0.0, why + " By the gradient.", mode, blind)


@fit_to_subject
def problems(level: CheckLevel):
    yield make_problem(1, 1, 1, 2, 2, mask=torch.tensor([True, False]), seed=95)
    yield from (core_problems()[name] for name in ("padding", "causal", "everything"))
    if level == "full":
        yield from (make_problem(mask=padding_mask(5, 3, 2), seed=96), option_problems()["window without right bound"])


ENTRY = Invariant(
    code="N3",
    statement="What is hidden stays out whatever it holds: a large number always, NaN and infinity where that is declared.",
    formula="hidden j: v_j = NaN or k_j = ∞  ⇒  z_i as before",
    when="something is hidden; NaN and infinity only where the subject declares that they are absent",
    judge=judge,
    problems=problems,
)
