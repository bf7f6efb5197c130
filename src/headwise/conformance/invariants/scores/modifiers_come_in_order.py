"""N6: scale, then cap, then bias, then mask, then the softmax with its sink: in another order it is another attention."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, normal, room
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import lengths, odd_ones, problem, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.softcap is None and problem.bias is None:
        return None
    live, right, allow = alive(subject, problem)[..., None], problem.right(subject.conventions), room(subject, problem)
    said = "scale, cap, bias, mask, sink"
    found = differ(problem, ask(subject, problem).output, right.output, allow.output, f"It is not what {said} give in this order.", where=live)
    if found is not None or "weights" not in subject.honours:
        return found
    hidden = ~problem.seen(subject.conventions) & live
    weights = ask(subject, problem, WEIGHTS).weights
    hidden = hidden.all(1) if weights.dim() == 3 else hidden
    return differ(problem, weights, torch.zeros_like(weights), 0.0, "A hidden key has weight after the cap.", WEIGHTS, hidden)


@pooled
def problems(level: Level):
    capped = problem(1, 1, 1, 3, 3, softcap=2.0, scale=1.0, mask=torch.arange(3) < 2, seed=110)
    yield from (capped, capped.having(query=3 * capped.query), odd_ones()["softcap"], odd_ones()["bias"], odd_ones()["bias of one row"])
    yield problem(softcap=1.0, scale=2.0, bias=5 * normal(4, 3, 5, seed=106), seed=111)
    yield problem(scale=0.3, bias=normal(4, 3, 5, seed=107), mask=lengths(5, 5, 2), seed=112)
    yield problem(softcap=1.0, scale=-1.0, sink=3 * normal(4, seed=108), causal=True, seed=113)
    yield problem(2, 3, 3, 4, 4, bias=2 * normal(3, 4, 4, seed=109), seed=114)
    yield witnesses()["everything"]


ENTRY = Law(
    code="N6",
    statement="Scores are scaled, then capped, then biased, then hidden; the sink is neither scaled nor capped.",
    formula="s = c·tanh(scale·q·k / c) + bias; hidden: s = -∞",
    when="the subject has a cap or a bias",
    judge=judge,
    problems=problems,
)
