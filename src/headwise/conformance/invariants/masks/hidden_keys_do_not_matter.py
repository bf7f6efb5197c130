"""I06: whatever stands where a query may not look, the query gives the same."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, not_finite, room, rows
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.perturbations import disturbed, loudness
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer_settings, lengths, problem, settings
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    sees, severity = problem.seen(subject.conventions), loudness(problem)
    how = WEIGHTS if "weights" in subject.honours else PLAINLY
    before, allow = ask(subject, problem), room(subject, problem)
    live = alive(subject, problem)
    right = problem.right(subject.conventions).output
    found = not_finite(problem, before.output, right, "A row that sees a key is not finite.", where=rows(live, problem), severity=severity)
    if found is not None:
        return found
    keys = [j for j in range(problem.shape[3]) if not bool(sees[..., j].all())]
    for j in keys[:: max(len(keys) // 4, 1)]:
        changed, still = disturbed(problem, j)
        blind = live & ~sees[..., j] & still[:, None]
        why = f"Key {j} and its value were changed, and a query that may not see it moved."
        found = differ(changed, ask(subject, changed).output, before.output, 2 * allow.output, why, where=rows(blind, problem), severity=severity)
        if found is not None:
            return found
    if not how.weights:
        return None
    weights = ask(subject, problem, how).weights
    hidden = (~sees & live[..., None]).all(1) if weights.dim() == 3 else ~sees & live[..., None]
    return differ(problem, weights, torch.zeros_like(weights), 0.0, "A hidden key has weight.", how, hidden, severity)


@pooled
def problems(level: Level):
    yield from settings(level)
    yield problem(queries=5, mask=lengths(5, 4, 2), seed=46)
    for keys in ((100.0, 99.0), (1000.0, 1.0)):
        loud = problem(1, 1, 1, 1, 2, 1, 1, scale=1.0, mask=torch.tensor([True, False]))
        yield loud.having(query=torch.tensor([[[[-300.0]]]]).double(), key=torch.tensor(keys).double().reshape(1, 1, 2, 1), value=_one_and_five())
    yield from layer_settings(level)


def _one_and_five() -> torch.Tensor:
    return torch.tensor([1.0, 5.0]).double().reshape(1, 1, 2, 1)


ENTRY = Law(
    code="I06",
    statement="A key that a query may not see does not matter to it: not its key, not its value, not by any weight.",
    formula="hidden (i, j):  w_ij = 0,  ∂z_i / ∂k_j = ∂z_i / ∂v_j = 0",
    when="something is hidden from a row that sees something",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
