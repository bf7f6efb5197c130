"""I02: what a query takes from its keys is 1 in all, whatever was asked, and never less than nothing."""

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.rounding import roundoff, sum_loss
from headwise.conformance.comparison.tolerance import attending_rows, determined_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_problem, padding_mask, standard_layer_problems, standard_problems


def judge(subject, problem) -> Finding | None:
    sink = problem.params.sink if isinstance(problem, LayerProblem) else problem.sink
    attending = attending_rows(subject, problem)
    of_dead = {"zero": 0.0, "nan": torch.nan, "mean": 1.0}[subject.conventions.dead_row]
    for mode in _hows(subject, problem):
        weights = subject.attend(problem, mode).weights.double()
        attending = attending.all(1) if weights.dim() == 3 and attending.dim() == 3 else attending
        counts = attending if weights.dim() == 3 or sink is not None else determined_rows(subject, problem)
        below = mismatch(problem, weights, weights.clamp(min=0), 0.0, "A weight is below 0.", mode, attending[..., None] & (weights < 0))
        if below is not None:
            return below
        total = weights.sum(-1)
        right = total.clamp(max=1) if sink is not None else torch.where(attending, 1.0, of_dead).to(total)
        allow = 2 * tolerance(subject, problem).weights.sum(-1).amax() + sum_loss(weights.shape[-1] + 1) * roundoff(subject.dtypes[0])
        found = mismatch(problem, total, right, allow, "The weights of a row do not sum to 1.", mode, counts)
        if found is not None:
            return found
    return None


def _hows(subject, problem) -> list[CallMode]:
    drops = problem.dropout and "dropout" in subject.supports and not subject.conventions.weights_after_dropout
    return [CallMode(weights=True), *([CallMode(weights=True, training=True)] if drops else [])]


@fit_to_subject
def problems(level: CheckLevel):
    yield from (make_problem(queries=4, keys=4, dropout=0.5, seed=43), make_problem(batch=4, heads=3, groups=3, mask=padding_mask(5, 5, 3, 1, 0), seed=44))
    yield from standard_problems(level)
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="I02",
    statement="The weights of a row sum to 1 and none is negative; with a sink to no more than 1, and where no key is seen as declared.",
    formula="Σ_j w_ij = 1    w_ij ≥ 0",
    when="weights are given back; in training too, unless they are declared to be those that dropout left",
    judge=judge,
    problems=problems,
    needs=frozenset({"weights"}),
    levels=("call", "layer"),
)
