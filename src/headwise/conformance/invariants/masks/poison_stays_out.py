"""N3: NaN or infinity in a hidden key or value stays out, where it is declared to; a large number stays out everywhere."""

from functools import lru_cache

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, normal, room
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import lengths, odd_ones, problem, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    sees = problem.seen(subject.conventions)
    live, before, allow = alive(subject, problem), ask(subject, problem).output, 2 * room(subject, problem).output
    hidden = [j for j in range(problem.shape[3]) if not bool(sees[..., j].all())]
    if not hidden:
        return None
    large = 1e10 if torch.finfo(problem.query.dtype).max > 1e11 else 1e4
    poisons = (large, torch.inf, torch.nan) if subject.conventions.hidden_nonfinite == "absent" else (large,)
    j = hidden[-1]
    for poison in poisons:
        for name in ("key", "value"):
            bad = poisoned(problem, name, j, poison)
            blind = (live & ~sees[..., j])[..., None]
            why = f"The hidden {name} {j} holds {poison}, and it reached a query that may not see it."
            found = differ(bad, ask(subject, bad).output, before, allow, why, where=blind)
            if found is None and "gradients" in subject.honours and poison != poison:
                found = _gradient(subject, bad, blind, why)
            if found is not None:
                return found
    return None


@lru_cache(maxsize=2048)
def poisoned(problem, name: str, j: int, poison: float):
    tensor = getattr(problem, name).clone()
    tensor[:, :, j] = poison
    return problem.having(**{name: tensor})


def _gradient(subject, bad, blind, why: str) -> Finding | None:
    """A loss on the rows that don't see it has a finite gradient in the queries."""
    upstream = normal(*bad.shape[:3], bad.value.shape[3], seed=105).to(bad.query) * blind
    how = How(upstream=upstream)
    slope = ask(subject, bad, how).gradients["query"]
    return differ(bad, slope.isfinite().double(), torch.ones_like(slope, dtype=torch.float64), 0.0, why + " By the gradient.", how, blind)


@pooled
def problems(level: Level):
    yield problem(1, 1, 1, 2, 2, mask=torch.tensor([True, False]), seed=95)
    yield from (witnesses()[name] for name in ("padding", "causal", "everything"))
    if level == "full":
        yield from (problem(mask=lengths(5, 3, 2), seed=96), odd_ones()["window far behind"])


ENTRY = Law(
    code="N3",
    statement="What is hidden stays out whatever it holds: a large number always, NaN and infinity where that is declared.",
    formula="hidden j: v_j = NaN or k_j = ∞  ⇒  z_i as before",
    when="something is hidden; NaN and infinity only where the subject declares that they are absent",
    judge=judge,
    problems=problems,
)
