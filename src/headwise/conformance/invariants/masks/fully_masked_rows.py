"""I16: a row that sees no key gives what was declared, on every path, and nobody else is harmed."""

import torch

from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import (
    WITH_WEIGHTS,
    attending_rows,
    determined_rows,
    fault,
    mismatch,
    not_finite,
    output_rows,
    tolerance,
)
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_layer_problem, make_problem, padding_mask, size_problems
from headwise.conformance.problems.random_tensors import random_normal

SAID = {"zero": "exactly 0", "nan": "NaN", "mean": "the mean of all values"}


def judge(subject, problem) -> Finding | None:
    attending = attending_rows(subject, problem)
    if bool(attending.all()):
        return None
    said, known = SAID[subject.conventions.dead_row], determined_rows(subject, problem)
    right, allow = problem.expected(subject.conventions), tolerance(subject, problem)
    for mode in _hows(subject):
        found = subject.attend(problem, mode)
        here = output_rows(attending, problem)
        gone = ~here & output_rows(known, problem)
        gap = mismatch(problem, found.output, right.output, allow.output, "A row that sees keys is harmed by one that sees none.", mode, here)
        gap = gap or mismatch(problem, found.output, right.output, allow.output, f"A row that sees no key should give {said}.", mode, gone)
        if gap is None and mode.weights and found.weights.dim() == 4:
            gap = mismatch(
                problem, found.weights, right.weights, allow.weights, f"A row that sees no key should give {said}, and so its weights.", mode, known[..., None]
            )
        if gap is not None:
            return gap
    return _gradients(subject, problem, attending) if "gradients" in subject.supports else None


def _hows(subject) -> tuple[CallMode, ...]:
    return (PLAIN, *([WITH_WEIGHTS] if "weights" in subject.supports else []))


def _gradients(subject, problem, attending) -> Finding | None:
    """A loss that looks at live rows only has finite gradients; one that looks at dead rows too, where these are 0."""
    x = problem.x if isinstance(problem, LayerProblem) else problem.value
    shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], x.shape[3])
    upstream = random_normal(*shape, seed=101).to(x)
    if subject.conventions.dead_row != "zero":
        upstream = torch.where(output_rows(attending, problem), upstream, torch.zeros_like(upstream))
    for weights in (False, *([True] if "weights" in subject.supports else [])):
        mode = CallMode(upstream=upstream, weights=weights)
        right = {} if isinstance(problem, LayerProblem) else problem.expected(subject.conventions, upstream).gradients
        for name, slope in subject.attend(problem, mode).gradients.items():
            why = f"A row that sees no key makes the gradient of {name} infinite or NaN."
            if name not in right and not bool(slope.isfinite().all()):
                return fault(problem, why, mode)
            found = not_finite(problem, slope, right[name], why, mode) if name in right else None
            if found is not None:
                return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    of_one_head = torch.tensor([True, True, False])[None, :, None, None].expand(1, 3, 5, 5)
    yield make_problem(1, 3, 3, 5, 5, mask=of_one_head, seed=64)
    yield make_problem(2, 2, 2, 3, 3, mask=padding_mask(3, 3, 0), seed=65)
    yield make_problem(1, 1, 1, 3, 3, mask=torch.tensor([[True] * 3, [False] * 3, [True, False, True]]), seed=66)
    yield make_problem(1, 2, 1, 3, 1, mask=torch.tensor([[True], [False], [True]]), seed=140)
    yield make_problem(1, 2, 1, 3, 4, mask=torch.tensor([[True], [False], [True]])[None, None], seed=141)
    yield make_problem(queries=5, causal=True, mask=torch.arange(5) >= 2, seed=67)
    yield make_problem(queries=5, causal=True, mask=torch.arange(5) < 4, seed=68)
    yield make_problem(1, 2, 1, 5, 5, causal=True, mask=torch.arange(5) >= 3, seed=69)
    yield make_problem(queries=5, mask=padding_mask(5, 4, 0), seed=129)
    yield make_problem(mask=padding_mask(5, 0, 2), sink=random_normal(4, seed=102), seed=70)
    yield make_problem(bias=torch.tensor([[0.0] * 5, [-torch.inf] * 5, [1.0, -torch.inf, 0, 0, 0]]).double(), seed=71)
    yield from (core_problems()["window"], core_problems()["everything"], size_problems()["more queries than keys"])
    yield make_layer_problem(mask=padding_mask(5, 5, 0), seed=72)
    yield make_layer_problem(causal=True, mask=torch.arange(5) >= 1, seed=73)


ENTRY = Invariant(
    code="I16",
    statement="A row that sees no key gives what is declared (0, NaN or the mean of the values) on every path, and harms no other row and no gradient.",
    formula="no j visible to i:  z_i = 0",
    when="a mask, a window or causality can hide every key of a row",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
