"""N8: the weights that are given back are those that made the output: head by head, in training too."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.attention_oracle import key_heads
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room, rows
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer_settings, problem, settings
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    live, allow = alive(subject, problem), room(subject, problem)
    found = ask(subject, problem, WEIGHTS)
    weights = found.weights.detach().double()
    if subject.conventions.weights == "averaged":
        right = problem.right(subject.conventions).weights.mean(1)
        return differ(problem, weights, right, allow.weights.mean(1), "The weights are not the mean over the heads.", WEIGHTS, live.all(1)[..., None])
    if weights.shape != problem.shape:
        return differ(problem, weights, problem.right(subject.conventions).weights, 0.0, "There is no pattern for each head.", WEIGHTS)
    made = _output(problem, weights, subject)
    why = "The weights that are shown, times the values, are not the output."
    gap = differ(problem, found.output, made, 2 * allow.output, why, WEIGHTS, rows(live, problem))
    if gap is None and found.writes is not None:
        b_o = 0.0 if problem.params.b_o is None else problem.params.b_o.double()
        why = "What the heads are said to write does not add up to the output."
        gap = differ(problem, found.writes.double().sum(1) + b_o, found.output, 2 * allow.output, why, WEIGHTS, rows(live, problem))
    if gap is not None or not (problem.dropout and "dropout" in subject.honours) or subject.conventions.weights_after_dropout:
        return gap
    how = How(weights=True, training=True)
    why = "The weights that are shown in training are not the probabilities that evaluation shows."
    return differ(problem, ask(subject, problem, how).weights, weights, 2 * allow.weights, why, how, live[..., None])


def _output(problem, weights, subject):
    inner = problem.inner() if isinstance(problem, LayerProblem) else problem
    reads = torch.from_numpy(key_heads(weights.shape[1], inner.value.shape[1], subject.conventions))
    z = torch.einsum("bhts,bhse->bhte", weights, inner.value.double()[:, reads])
    if not isinstance(problem, LayerProblem):
        return z
    out = torch.einsum("bhte,hem->btm", z, problem.params.w_o.double())
    return out if problem.params.b_o is None else out + problem.params.b_o.double()


@pooled
def problems(level: Level):
    yield from (problem(1, 2, 2, 4, 4, dropout=0.5, seed=119), problem(1, 2, 2, 1, 1, dropout=0.2, seed=120))
    opposite = problem(1, 2, 2, 1, 2, 1, 1, scale=9.0, seed=121)
    keys = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double().reshape(1, 2, 2, 1)
    yield opposite.having(query=torch.ones_like(opposite.query), key=keys)
    yield from settings(level)
    yield from layer_settings(level)


ENTRY = Law(
    code="N8",
    statement="The weights that are given back are those that made the output, for each head its own; in training, unless declared, the probabilities.",
    formula="w_shown · v = z",
    when="weights are given back",
    judge=judge,
    problems=problems,
    needs=frozenset({"weights"}),
    levels=("call", "layer"),
)
