"""N6: scale, then cap, then bias, then mask, then the softmax with its sink: in another order it is another attention."""

import torch

from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, padding_mask
from headwise.conformance.problems.random_tensors import random_normal


def judge(subject, problem) -> Finding | None:
    if problem.softcap is None and problem.bias is None:
        return None
    attending, right, allow = attending_rows(subject, problem)[..., None], problem.expected(subject.conventions), tolerance(subject, problem)
    said = "scale, cap, bias, mask, sink"
    found = mismatch(problem, subject.attend(problem).output, right.output, allow.output, f"It is not what {said} give in this order.", where=attending)
    if found is not None or "weights" not in subject.supports:
        return found
    hidden = ~problem.visible(subject.conventions) & attending
    weights = subject.attend(problem, WITH_WEIGHTS).weights
    hidden = hidden.all(1) if weights.dim() == 3 else hidden
    return mismatch(problem, weights, torch.zeros_like(weights), 0.0, "A hidden key has weight after the cap.", WITH_WEIGHTS, hidden)


@fit_to_subject
def problems(level: CheckLevel):
    capped = make_problem(1, 1, 1, 3, 3, softcap=2.0, scale=1.0, mask=torch.arange(3) < 2, seed=110)
    yield from (capped, capped.replace(query=3 * capped.query), option_problems()["softcap"], option_problems()["bias"], option_problems()["bias of one row"])
    yield make_problem(softcap=1.0, scale=2.0, bias=5 * random_normal(4, 3, 5, seed=106), seed=111)
    yield make_problem(scale=0.3, bias=random_normal(4, 3, 5, seed=107), mask=padding_mask(5, 5, 2), seed=112)
    yield make_problem(softcap=1.0, scale=-1.0, sink=3 * random_normal(4, seed=108), causal=True, seed=113)
    yield make_problem(2, 3, 3, 4, 4, bias=2 * random_normal(3, 4, 4, seed=109), seed=114)
    yield core_problems()["everything"]


ENTRY = Invariant(
    code="N6",
    statement="Scores are scaled, then capped, then biased, then hidden; the sink is neither scaled nor capped.",
    formula="s = c·tanh(scale·q·k / c) + bias; hidden: s = -∞",
    when="the subject has a cap or a bias",
    judge=judge,
    problems=problems,
)
