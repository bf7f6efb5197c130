"""I06: whatever stands where a query may not look, the query gives the same."""

import torch

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, not_finite, output_rows, severity_at_scores, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.perturbations import with_key_changed
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_problem, padding_mask, standard_layer_problems, standard_problems


def judge(subject, problem) -> Finding | None:
    visible, severity = problem.visible(subject.conventions), severity_at_scores(problem)
    mode = WITH_WEIGHTS if "weights" in subject.supports else PLAIN
    before, allow = subject.attend(problem), tolerance(subject, problem)
    attending = attending_rows(subject, problem)
    right = problem.expected(subject.conventions).output
    found = not_finite(problem, before.output, right, "A row that sees a key is not finite.", where=output_rows(attending, problem), severity=severity)
    if found is not None:
        return found
    keys = [j for j in range(problem.shape[3]) if not bool(visible[..., j].all())]
    for j in keys[:: max(len(keys) // 4, 1)]:
        changed, still = with_key_changed(problem, j)
        blind = attending & ~visible[..., j] & still[:, None]
        why = f"Key {j} and its value were changed, and a query that may not see it moved."
        found = mismatch(changed, subject.attend(changed).output, before.output, 2 * allow.output, why, where=output_rows(blind, problem), severity=severity)
        if found is not None:
            return found
    if not mode.weights:
        return None
    weights = subject.attend(problem, mode).weights
    hidden = (~visible & attending[..., None]).all(1) if weights.dim() == 3 else ~visible & attending[..., None]
    return mismatch(problem, weights, torch.zeros_like(weights), 0.0, "A hidden key has weight.", mode, hidden, severity)


@fit_to_subject
def problems(level: CheckLevel):
    yield from standard_problems(level)
    yield make_problem(queries=5, mask=padding_mask(5, 4, 2), seed=46)
    for keys in ((100.0, 99.0), (1000.0, 1.0)):
        loud = make_problem(1, 1, 1, 1, 2, 1, 1, scale=1.0, mask=torch.tensor([True, False]))
        yield loud.replace(query=torch.tensor([[[[-300.0]]]]).double(), key=torch.tensor(keys).double().reshape(1, 1, 2, 1), value=_one_and_five())
    yield from standard_layer_problems(level)


def _one_and_five() -> torch.Tensor:
    return torch.tensor([1.0, 5.0]).double().reshape(1, 1, 2, 1)


ENTRY = Invariant(
    code="I06",
    statement="A key that a query may not see does not matter to it: not its key, not its value, not by any weight.",
    formula="hidden (i, j):  w_ij = 0,  ∂z_i / ∂k_j = ∂z_i / ∂v_j = 0",
    when="something is hidden from a row that sees something",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
