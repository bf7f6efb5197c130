"""I16: a row that sees no key gives what was declared, on every path, and nobody else is harmed."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, declared, differ, normal, not_finite, room, rows, wrong
from headwise.conformance.problems.answer import PLAINLY, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer, lengths, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding

SAID = {"zero": "exactly 0", "nan": "NaN", "mean": "the mean of all values"}


def judge(subject, problem) -> Finding | None:
    live = alive(subject, problem)
    if bool(live.all()):
        return None
    said, known = SAID[subject.conventions.dead_row], declared(subject, problem)
    right, allow = problem.right(subject.conventions), room(subject, problem)
    for how in _hows(subject):
        found = ask(subject, problem, how)
        here = rows(live, problem)
        gone = ~here & rows(known, problem)
        gap = differ(problem, found.output, right.output, allow.output, "A row that sees keys is harmed by one that sees none.", how, here)
        gap = gap or differ(problem, found.output, right.output, allow.output, f"A row that sees no key should give {said}.", how, gone)
        if gap is None and how.weights and found.weights.dim() == 4:
            gap = differ(
                problem, found.weights, right.weights, allow.weights, f"A row that sees no key should give {said}, and so its weights.", how, known[..., None]
            )
        if gap is not None:
            return gap
    return _gradients(subject, problem, live) if "gradients" in subject.honours else None


def _hows(subject) -> tuple[How, ...]:
    return (PLAINLY, *([WEIGHTS] if "weights" in subject.honours else []))


def _gradients(subject, problem, live) -> Finding | None:
    """A loss that looks at live rows only has finite gradients; one that looks at dead rows too, where these are 0."""
    x = problem.x if isinstance(problem, LayerProblem) else problem.value
    shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], x.shape[3])
    upstream = normal(*shape, seed=101).to(x)
    if subject.conventions.dead_row != "zero":
        upstream = torch.where(rows(live, problem), upstream, torch.zeros_like(upstream))
    for weights in (False, *([True] if "weights" in subject.honours else [])):
        how = How(upstream=upstream, weights=weights)
        right = {} if isinstance(problem, LayerProblem) else problem.right(subject.conventions, upstream).gradients
        for name, slope in ask(subject, problem, how).gradients.items():
            why = f"A row that sees no key makes the gradient of {name} infinite or NaN."
            if name not in right and not bool(slope.isfinite().all()):
                return wrong(problem, why, how)
            found = not_finite(problem, slope, right[name], why, how) if name in right else None
            if found is not None:
                return found
    return None


@pooled
def problems(level: Level):
    of_one_head = torch.tensor([True, True, False])[None, :, None, None].expand(1, 3, 5, 5)
    yield problem(1, 3, 3, 5, 5, mask=of_one_head, seed=64)
    yield problem(2, 2, 2, 3, 3, mask=lengths(3, 3, 0), seed=65)
    yield problem(1, 1, 1, 3, 3, mask=torch.tensor([[True] * 3, [False] * 3, [True, False, True]]), seed=66)
    yield problem(1, 2, 1, 3, 1, mask=torch.tensor([[True], [False], [True]]), seed=140)
    yield problem(1, 2, 1, 3, 4, mask=torch.tensor([[True], [False], [True]])[None, None], seed=141)
    yield problem(queries=5, causal=True, mask=torch.arange(5) >= 2, seed=67)
    yield problem(queries=5, causal=True, mask=torch.arange(5) < 4, seed=68)
    yield problem(1, 2, 1, 5, 5, causal=True, mask=torch.arange(5) >= 3, seed=69)
    yield problem(queries=5, mask=lengths(5, 4, 0), seed=129)
    yield problem(mask=lengths(5, 0, 2), sink=normal(4, seed=102), seed=70)
    yield problem(bias=torch.tensor([[0.0] * 5, [-torch.inf] * 5, [1.0, -torch.inf, 0, 0, 0]]).double(), seed=71)
    yield from (witnesses()["window"], witnesses()["everything"], sizes()["more queries than keys"])
    yield layer(mask=lengths(5, 5, 0), seed=72)
    yield layer(causal=True, mask=torch.arange(5) >= 1, seed=73)


ENTRY = Law(
    code="I16",
    statement="A row that sees no key gives what is declared (0, NaN or the mean of the values) on every path, and harms no other row and no gradient.",
    formula="no j visible to i:  z_i = 0",
    when="a mask, a window or causality can hide every key of a row",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
