"""N7: a sink is one more key, with a value of zero: it takes weight from all others and gives nothing."""

from functools import lru_cache

import torch
from torch.nn.functional import pad

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, option_problems, padding_mask
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    sink = problem.params.sink if isinstance(problem, LayerProblem) else problem.sink
    if sink is None:
        return None
    attending, right, allow = attending_rows(subject, problem), problem.expected(subject.conventions), tolerance(subject, problem)
    for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports else (PLAIN,):
        found = subject.attend(problem, mode)
        gap = mismatch(
            problem, found.output, right.output, allow.output, "The sink does not take its share of the output.", mode, output_rows(attending, problem)
        )
        if gap is None and mode.weights and found.weights.dim() == 4:
            share, room_for = right.weights.sum(-1), allow.weights.sum(-1)
            gap = mismatch(problem, found.weights.sum(-1), share, room_for, "A row should sum to 1 less the share of the sink.", mode, attending)
        if gap is not None:
            return gap
    spelled = None if isinstance(problem, LayerProblem) or "bias" not in subject.supports else as_a_key(problem)
    if spelled is None:
        return None
    why = "One more key, whose score is the sink and whose value is 0, gives another output than the sink."
    return mismatch(problem, subject.attend(problem).output, subject.attend(spelled).output, 2 * allow.output, why, where=attending[..., None])


@lru_cache(maxsize=1024)
def as_a_key(problem):
    """A key of zeros, a value of zeros, and the sink as its bias; None where causality or a window would hide it."""
    if problem.causal or problem.window is not None:
        return None
    bias = torch.zeros(1, 1, 1, problem.shape[3], dtype=problem.query.dtype) if problem.bias is None else problem.bias[(None,) * (4 - problem.bias.dim())]
    bias = bias.expand(bias.shape[0], problem.shape[1], bias.shape[2], problem.shape[3])
    column = problem.sink[None, :, None, None].to(bias).expand(*bias.shape[:3], 1)
    mask = None if problem.mask is None else pad(problem.mask.expand(*problem.mask.shape[:-1], problem.shape[3]), (0, 1), value=True)
    key, value = (pad(x, (0, 0, 0, 1)) for x in (problem.key, problem.value))
    return problem.replace(key=key, value=value, mask=mask, bias=torch.cat([bias, column], -1), sink=None)


@fit_to_subject
def problems(level: CheckLevel):
    yield make_problem(1, 2, 1, 2, 2, sink=torch.tensor([10.0, -10.0]).double(), seed=115)
    yield make_problem(1, 2, 2, 2, 4, sink=torch.tensor([0.5, -1.0]).double(), mask=torch.arange(4) < 2, seed=116)
    yield make_problem(sink=random_normal(4, seed=110), mask=padding_mask(5, 5, 2), softcap=2.0, seed=117)
    yield make_problem(sink=random_normal(4, seed=111), scale=-0.5, seed=118)
    yield from (option_problems()["sink"], core_problems()["everything"], layer_problems()["everything"])


ENTRY = Invariant(
    code="N7",
    statement="A sink is one more key with a value of zero: each row sums to 1 less its share.",
    formula="Σ_j w_ij = 1 - p_sink,   attend(q, k, v, sink) = attend(q, [k, 0], [v, 0], bias = [0, sink])",
    when="the subject has sinks",
    judge=judge,
    problems=problems,
    needs=frozenset({"sink"}),
    levels=("call", "layer"),
)
