"""I02: what a query takes from its keys is 1 in all, whatever was asked, and never less than nothing."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.rounding import lose, roundoff
from headwise.conformance.oracles.tolerance import alive, ask, declared, differ, room
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer_settings, lengths, problem, settings
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    sink = problem.params.sink if isinstance(problem, LayerProblem) else problem.sink
    live = alive(subject, problem)
    of_dead = {"zero": 0.0, "nan": torch.nan, "mean": 1.0}[subject.conventions.dead_row]
    for how in _hows(subject, problem):
        weights = ask(subject, problem, how).weights.double()
        live = live.all(1) if weights.dim() == 3 and live.dim() == 3 else live
        counts = live if weights.dim() == 3 or sink is not None else declared(subject, problem)
        below = differ(problem, weights, weights.clamp(min=0), 0.0, "A weight is below 0.", how, live[..., None] & (weights < 0))
        if below is not None:
            return below
        total = weights.sum(-1)
        right = total.clamp(max=1) if sink is not None else torch.where(live, 1.0, of_dead).to(total)
        allow = 2 * room(subject, problem).weights.sum(-1).amax() + lose(weights.shape[-1] + 1) * roundoff(subject.dtypes[0])
        found = differ(problem, total, right, allow, "The weights of a row do not sum to 1.", how, counts)
        if found is not None:
            return found
    return None


def _hows(subject, problem) -> list[How]:
    drops = problem.dropout and "dropout" in subject.honours and not subject.conventions.weights_after_dropout
    return [How(weights=True), *([How(weights=True, training=True)] if drops else [])]


@pooled
def problems(level: Level):
    yield from (problem(queries=4, keys=4, dropout=0.5, seed=43), problem(batch=4, heads=3, groups=3, mask=lengths(5, 5, 3, 1, 0), seed=44))
    yield from settings(level)
    yield from layer_settings(level)


ENTRY = Law(
    code="I02",
    statement="The weights of a row sum to 1 and none is negative; with a sink to no more than 1, and where no key is seen as declared.",
    formula="Σ_j w_ij = 1    w_ij ≥ 0",
    when="weights are given back; in training too, unless they are declared to be those that dropout left",
    judge=judge,
    problems=problems,
    needs=frozenset({"weights"}),
    levels=("call", "layer"),
)
