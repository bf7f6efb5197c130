"""N1: what must not matter does not: weights asked for or not, gradients on or off, a flag or the mask that it stands for."""

import torch

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import (
    core_problems,
    make_layer_problem,
    make_problem,
    option_problems,
    padding_mask,
    standard_layer_problems,
    standard_problems,
)
from headwise.conformance.problems.random_tensors import random_normal
from headwise.conformance.problems.variants import as_mask
from headwise.errors import NotSupported


def judge(subject, problem) -> Finding | None:
    plain, allow = subject.attend(problem).output, 2 * tolerance(subject, problem).output
    for said, mode in _hows(subject, problem).items():
        try:
            other = subject.attend(problem, mode).output
        except NotSupported:
            continue  # one path may know less than another
        found = mismatch(problem, other, plain, allow, f"{said}, the output is another.", mode)
        if found is not None:
            return found
    if problem.causal and {"weights", "gradients"} <= subject.supports:
        found = _gradients(subject, problem)
        if found is not None:
            return found
    if isinstance(problem, LayerProblem) or "mask" not in subject.supports:
        return None
    spelled = as_mask(problem, subject.conventions)
    if spelled is None or ("mask_by_head" not in subject.supports and spelled.mask.shape[1] > 1):
        return None
    why = "Written out as a mask, causality and window give another output than as options."
    attending = output_rows(attending_rows(subject, problem), problem)
    return mismatch(spelled, subject.attend(spelled).output, plain, allow, why, where=attending)


def _gradients(subject, problem) -> Finding | None:
    """Gradients with weights asked for and without; upstream as a merge of heads hands it back."""
    shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], problem.value.shape[3])
    upstream = random_normal(*shape, seed=115).to(next(iter(problem.float_tensors().values()))).transpose(1, 2).contiguous().transpose(1, 2)
    upstream = upstream * output_rows(attending_rows(subject, problem), problem)
    one, other = (subject.attend(problem, CallMode(upstream=upstream, weights=weights)).gradients for weights in (False, True))
    for name, slope in one.items():
        allow = 1e3 * torch.finfo(slope.dtype).eps * (1 + float(slope.double().abs().max()))
        mode = CallMode(upstream=upstream, weights=True)
        found = mismatch(problem, other[name], slope, allow, f"With weights asked for, the gradient of {name} is another.", mode)
        if found is not None:
            return found
    return None


def _hows(subject, problem) -> dict[str, CallMode]:
    found = {f"By the path {path!r}": CallMode(path=path) for path in subject.paths}
    if "weights" in subject.supports:
        found["With weights asked for"] = CallMode(weights=True)
    if "gradients" in subject.supports:
        found["With gradients enabled"] = CallMode(grad=True)
        if "weights" in subject.supports:
            found["With weights asked for and gradients enabled"] = CallMode(weights=True, grad=True)
    if not problem.dropout:
        found["In training mode, without dropout"] = CallMode(training=True)
    return found


@fit_to_subject
def problems(level: CheckLevel):
    yield from (standard_problems("full") if level == "full" else core_problems().values())
    yield make_problem(1, 2, 2, 3, 3, mask=padding_mask(3, 0), seed=82)
    yield make_problem(2, 2, 2, 3, 3, mask=padding_mask(3, 0, 2), seed=83)
    yield make_problem(2, 2, 2, 3, 3, causal=True, mask=torch.ones(3, 3, dtype=torch.bool).triu(1), seed=84)
    yield make_problem(1, 1, 1, 9, 9, causal=True, window=3, seed=85)
    yield make_problem(queries=4, keys=4, causal=True, dropout=0.1, seed=86)
    yield option_problems()["bias"]
    yield make_layer_problem(mask=padding_mask(5, 5, 0), seed=87)
    yield make_layer_problem(mask=padding_mask(5, 3, 2), seed=88)
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="N1",
    statement="Every path gives the same: with and without weights or gradients, in training without dropout, by flags or by the mask that they stand for.",
    formula="f(x, setting) = f(x)",
    when="always; rows that see nothing included",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
