"""N8: the weights that are given back are those that made the output: head by head, in training too."""

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.oracles.attention_oracle import kv_head_of
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_problem, standard_layer_problems, standard_problems


def judge(subject, problem) -> Finding | None:
    attending, allow = attending_rows(subject, problem), tolerance(subject, problem)
    found = subject.attend(problem, WITH_WEIGHTS)
    weights = found.weights.detach().double()
    if subject.conventions.weights == "averaged":
        right = problem.expected(subject.conventions).weights.mean(1)
        return mismatch(
            problem, weights, right, allow.weights.mean(1), "The weights are not the mean over the heads.", WITH_WEIGHTS, attending.all(1)[..., None]
        )
    if weights.shape != problem.shape:
        return mismatch(problem, weights, problem.expected(subject.conventions).weights, 0.0, "There is no pattern for each head.", WITH_WEIGHTS)
    made = _output(problem, weights, subject)
    why = "The weights that are shown, times the values, are not the output."
    gap = mismatch(problem, found.output, made, 2 * allow.output, why, WITH_WEIGHTS, output_rows(attending, problem))
    if gap is None and found.writes is not None:
        b_o = 0.0 if problem.params.b_o is None else problem.params.b_o.double()
        why = "What the heads are said to write does not add up to the output."
        gap = mismatch(problem, found.writes.double().sum(1) + b_o, found.output, 2 * allow.output, why, WITH_WEIGHTS, output_rows(attending, problem))
    if gap is not None or not (problem.dropout and "dropout" in subject.supports) or subject.conventions.weights_after_dropout:
        return gap
    mode = CallMode(weights=True, training=True)
    why = "The weights that are shown in training are not the probabilities that evaluation shows."
    return mismatch(problem, subject.attend(problem, mode).weights, weights, 2 * allow.weights, why, mode, attending[..., None])


def _output(problem, weights, subject):
    inner = problem.inner_problem() if isinstance(problem, LayerProblem) else problem
    reads = torch.from_numpy(kv_head_of(weights.shape[1], inner.value.shape[1], subject.conventions))
    z = torch.einsum("bhts,bhse->bhte", weights, inner.value.double()[:, reads])
    if not isinstance(problem, LayerProblem):
        return z
    out = torch.einsum("bhte,hem->btm", z, problem.params.w_o.double())
    return out if problem.params.b_o is None else out + problem.params.b_o.double()


@fit_to_subject
def problems(level: CheckLevel):
    yield from (make_problem(1, 2, 2, 4, 4, dropout=0.5, seed=119), make_problem(1, 2, 2, 1, 1, dropout=0.2, seed=120))
    opposite = make_problem(1, 2, 2, 1, 2, 1, 1, scale=9.0, seed=121)
    keys = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double().reshape(1, 2, 2, 1)
    yield opposite.replace(query=torch.ones_like(opposite.query), key=keys)
    yield from standard_problems(level)
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="N8",
    statement="The weights that are given back are those that made the output, for each head its own; in training, unless declared, the probabilities.",
    formula="w_shown · v = z",
    when="weights are given back",
    judge=judge,
    problems=problems,
    needs=frozenset({"weights"}),
    levels=("call", "layer"),
)
