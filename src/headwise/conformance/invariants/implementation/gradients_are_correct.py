"""I14: the gradient is the slope of what was computed: of each number that went in, in every row, dead ones too."""

import torch

from headwise.axes import Tensor
from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding, Severity
from headwise.conformance.comparison.rounding import gradient_tolerances
from headwise.conformance.comparison.tolerance import attending_rows, fault, mismatch, output_rows, systematic_error, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import as_dtype
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, large_problems, layer_problems, make_problem, padding_mask, standard_problems
from headwise.conformance.problems.random_tensors import random_normal

STEP = 1e-4


def judge(subject, problem) -> Finding | None:
    """In float64 where it can, as slopes are seen best there; a few in other dtypes."""
    dtype = problem.x.dtype if isinstance(problem, LayerProblem) else problem.query.dtype
    if dtype == torch.float64 and not (torch.float64 in subject.dtypes and _keeps(subject, problem)):
        problem = as_dtype(problem, subject.dtypes[0])
    return _of_layer(subject, problem) if isinstance(problem, LayerProblem) else _of_call(subject, problem)


def _keeps(subject, problem) -> bool:
    """Whether float64 stays float64 inside; where it does not, another law says so, and slopes are judged in the usual dtype."""
    got, right, attending = (
        subject.attend(problem).output,
        problem.expected(subject.conventions).output,
        output_rows(attending_rows(subject, problem), problem),
    )
    precise, rough = tolerance(subject, problem).output, tolerance(subject, problem.to(subject.dtypes[0])).output
    return mismatch(problem, got, right, precise, "", where=attending) is None or mismatch(problem, got, right, rough, "", where=attending) is not None


def _of_call(subject, problem) -> Finding | None:
    batch, heads, queries, _ = problem.shape
    wide = problem.value.shape[3]
    upstream = random_normal(batch, queries, heads, wide, seed=96).to(problem.query).transpose(1, 2)  # as a merge of heads hands it back
    if subject.conventions.dead_row != "zero":
        upstream = upstream * attending_rows(subject, problem)[..., None]
    right, allow = problem.expected(subject.conventions, upstream).gradients, gradient_tolerances(problem, upstream, subject.conventions)
    severity: Severity = "fragile" if problem.query.dtype in (torch.float16, torch.bfloat16) else "wrong"
    mode = CallMode(upstream=upstream)
    found = subject.attend(problem, mode).gradients
    for name, slope in right.items():
        gap = mismatch(problem, found[name], slope, allow[name], f"The gradient of {name} is not the slope of the output.", mode, severity=severity)
        gap = gap or systematic_error(problem, found[name], slope, 16, f"All numbers of the gradient of {name} together are", mode)
        if gap is not None:
            return gap
    for name in right if not problem.options else ():
        mode = CallMode(upstream=upstream, only_grad_of=name)
        why = f"Where {name} alone requires a gradient, it is another."
        gap = mismatch(problem, subject.attend(problem, mode).gradients[name], right[name], allow[name], why, mode, severity=severity)
        if gap is not None:
            return gap
    drops = problem.dropout and "dropout" in subject.supports and problem.query.dtype == torch.float64
    return _of_dropout(subject, problem) if drops else None


def _of_dropout(subject, problem) -> Finding | None:
    """The output is linear in the values: the same draw of dropout on other values tells the slope without a small step."""
    upstream, seed = random_normal(*problem.shape[:3], problem.value.shape[3], seed=97).to(problem.query), 5
    mode = CallMode(upstream=upstream, training=True, seed=seed)
    moved = random_normal(*problem.value.shape, seed=98).to(problem.value)
    got = subject.attend(problem, mode)
    there = subject.attend(problem.replace(value=problem.value + moved), CallMode(grad=True, training=True, seed=seed)).output.detach()
    rise = ((there - got.output.detach()) * upstream).sum()
    slope = (got.gradients["value"] * moved).sum()
    size = float((there.abs() * upstream.abs()).sum())
    return mismatch(problem, slope, rise, 1e-10 * (1 + size), "With dropout in training, the gradient of value is not the slope of the output.", mode)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    """Along one random direction for each tensor: what the gradient promises, and how the right output rises."""
    upstream = random_normal(*problem.x.shape, seed=99).to(problem.x) * attending_rows(subject, problem).all(1)[..., None]
    mode = CallMode(upstream=upstream)
    found = subject.attend(problem, mode).gradients
    precision = 1e-6 if problem.x.dtype == torch.float64 else 1e5 * torch.finfo(problem.x.dtype).eps
    for n, (name, tensor) in enumerate(problem.float_tensors().items()):
        if not bool(found[name].isfinite().all()):
            return fault(problem, f"The gradient of {name} is not finite.", mode)
        way = random_normal(*tensor.shape, seed=100 + n)
        there, back = (_total(problem.to(torch.float64), name, sign * STEP * way, upstream, subject) for sign in (1, -1))
        rise, promised = (there - back) / (2 * STEP), (found[name].double() * way).sum()
        size = (found[name].double().abs() * way.abs()).sum()
        gap = mismatch(problem, promised, rise, precision * (1 + float(size)), f"The gradient of {name} is not the slope of the output.", mode)
        if gap is not None:
            return gap
    return None


def _total(problem: LayerProblem, name: str, step: Tensor, upstream: Tensor, subject) -> Tensor:
    moved = problem.replace(**{name: problem.float_tensors()[name] + step})
    return (moved.expected(subject.conventions).output.nan_to_num() * upstream.double()).sum()


def problems(subject, level: CheckLevel):
    finest = torch.float64 if torch.float64 in subject.dtypes else subject.dtypes[0]
    yield from (as_dtype(entry, finest) for entry in _usual(subject, level))
    for dtype in subject.dtypes if subject.level == "call" else ():
        yield from (as_dtype(entry, dtype) for entry in _few(subject, level) if dtype != finest)


@fit_to_subject
def _few(level: CheckLevel):
    yield from (core_problems()["everything"], core_problems()["plain"], large_problems()["many heads and queries"])


@fit_to_subject
def _usual(level: CheckLevel):
    yield from standard_problems(level)
    yield make_problem(1, 2, 1, 4, 70, 33, 5, causal=True, query_offset=60, seed=142)
    yield large_problems()["32 x 32"]
    first_padded = torch.tensor([[False, True, True], [True] * 3])[:, None, None]
    yield make_problem(heads=2, groups=2, queries=3, keys=3, head_dim=2, value_dim=2, causal=True, mask=first_padded, seed=59)
    yield make_problem(1, 2, 1, 3, 3, dropout=0.25, seed=60)
    yield make_problem(queries=4, keys=4, mask=padding_mask(4, 4, 0), seed=61)
    yield from (layer_problems()[name] for name in ("everything", "rotary", "cross-attention", "alibi"))


ENTRY = Invariant(
    code="I14",
    statement="The gradient of every input is the slope of the output, also where a row sees nothing, also with dropout.",
    formula="⟨∇f, d⟩ = lim (f(x + εd) - f(x - εd)) / 2ε",
    when="the subject gives gradients; in float64 where it can",
    judge=judge,
    problems=problems,
    needs=frozenset({"gradients"}),
    levels=("call", "layer"),
)
