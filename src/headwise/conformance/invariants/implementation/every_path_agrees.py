"""N1: what must not matter does not: weights asked for or not, gradients on or off, a flag or the mask that it stands for."""

import torch

from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, normal, room, rows
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer, layer_settings, lengths, odd_ones, problem, settings, witnesses
from headwise.conformance.problems.variants import as_mask
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    plain, allow = ask(subject, problem).output, 2 * room(subject, problem).output
    for said, how in _hows(subject, problem).items():
        try:
            other = ask(subject, problem, how).output
        except Refused:
            continue  # one path may know less than another
        found = differ(problem, other, plain, allow, f"{said}, the output is another.", how)
        if found is not None:
            return found
    if problem.causal and {"weights", "gradients"} <= subject.honours:
        found = _gradients(subject, problem)
        if found is not None:
            return found
    if isinstance(problem, LayerProblem) or "mask" not in subject.honours:
        return None
    spelled = as_mask(problem, subject.conventions)
    if spelled is None or ("mask_by_head" not in subject.honours and spelled.mask.shape[1] > 1):
        return None
    why = "Written out as a mask, causality and window give another output than as options."
    live = rows(alive(subject, problem), problem)
    return differ(spelled, ask(subject, spelled).output, plain, allow, why, where=live)


def _gradients(subject, problem) -> Finding | None:
    """Gradients with weights asked for and without; upstream as a merge of heads hands it back."""
    shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], problem.value.shape[3])
    upstream = normal(*shape, seed=115).to(next(iter(problem.floats().values()))).transpose(1, 2).contiguous().transpose(1, 2)
    upstream = upstream * rows(alive(subject, problem), problem)
    one, other = (ask(subject, problem, How(upstream=upstream, weights=weights)).gradients for weights in (False, True))
    for name, slope in one.items():
        allow = 1e3 * torch.finfo(slope.dtype).eps * (1 + float(slope.double().abs().max()))
        how = How(upstream=upstream, weights=True)
        found = differ(problem, other[name], slope, allow, f"With weights asked for, the gradient of {name} is another.", how)
        if found is not None:
            return found
    return None


def _hows(subject, problem) -> dict[str, How]:
    found = {f"By the path {path!r}": How(path=path) for path in subject.paths}
    if "weights" in subject.honours:
        found["With weights asked for"] = How(weights=True)
    if "gradients" in subject.honours:
        found["With gradients enabled"] = How(grad=True)
        if "weights" in subject.honours:
            found["With weights asked for and gradients enabled"] = How(weights=True, grad=True)
    if not problem.dropout:
        found["In training mode, without dropout"] = How(training=True)
    return found


@pooled
def problems(level: Level):
    yield from (settings("full") if level == "full" else witnesses().values())
    yield problem(1, 2, 2, 3, 3, mask=lengths(3, 0), seed=82)
    yield problem(2, 2, 2, 3, 3, mask=lengths(3, 0, 2), seed=83)
    yield problem(2, 2, 2, 3, 3, causal=True, mask=torch.ones(3, 3, dtype=torch.bool).triu(1), seed=84)
    yield problem(1, 1, 1, 9, 9, causal=True, window=3, seed=85)
    yield problem(queries=4, keys=4, causal=True, dropout=0.1, seed=86)
    yield odd_ones()["bias"]
    yield layer(mask=lengths(5, 5, 0), seed=87)
    yield layer(mask=lengths(5, 3, 2), seed=88)
    yield from layer_settings(level)


ENTRY = Law(
    code="N1",
    statement="Every path gives the same: with and without weights or gradients, in training without dropout, by flags or by the mask that they stand for.",
    formula="f(x, setting) = f(x)",
    when="always; rows that see nothing included",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
