"""I14: the gradient is the slope of what was computed: of each number that went in, in every row, dead ones too."""

import torch

from headwise.axes import Tensor
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.rounding import allowed_gradients
from headwise.conformance.oracles.tolerance import alive, ask, differ, leaning, normal, room, rows, wrong
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import rounded
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import large, layers, lengths, problem, settings, witnesses
from headwise.conformance.report.finding import Finding, Severity

STEP = 1e-4


def judge(subject, problem) -> Finding | None:
    """In float64 where it can, as slopes are seen best there; a few in other dtypes."""
    dtype = problem.x.dtype if isinstance(problem, LayerProblem) else problem.query.dtype
    if dtype == torch.float64 and not (torch.float64 in subject.dtypes and _keeps(subject, problem)):
        problem = rounded(problem, subject.dtypes[0])
    return _of_layer(subject, problem) if isinstance(problem, LayerProblem) else _of_call(subject, problem)


def _keeps(subject, problem) -> bool:
    """Whether float64 stays float64 inside; where it does not, another law says so, and slopes are judged in the usual dtype."""
    got, right, live = ask(subject, problem).output, problem.right(subject.conventions).output, rows(alive(subject, problem), problem)
    precise, rough = room(subject, problem).output, room(subject, problem.to(subject.dtypes[0])).output
    return differ(problem, got, right, precise, "", where=live) is None or differ(problem, got, right, rough, "", where=live) is not None


def _of_call(subject, problem) -> Finding | None:
    batch, heads, queries, _ = problem.shape
    wide = problem.value.shape[3]
    upstream = normal(batch, queries, heads, wide, seed=96).to(problem.query).transpose(1, 2)  # as a merge of heads hands it back
    if subject.conventions.dead_row != "zero":
        upstream = upstream * alive(subject, problem)[..., None]
    right, allow = problem.right(subject.conventions, upstream).gradients, allowed_gradients(problem, upstream, subject.conventions)
    severity: Severity = "fragile" if problem.query.dtype in (torch.float16, torch.bfloat16) else "wrong"
    how = How(upstream=upstream)
    found = ask(subject, problem, how).gradients
    for name, slope in right.items():
        gap = differ(problem, found[name], slope, allow[name], f"The gradient of {name} is not the slope of the output.", how, severity=severity)
        gap = gap or leaning(problem, found[name], slope, 16, f"All numbers of the gradient of {name} together are", how)
        if gap is not None:
            return gap
    for name in right if not problem.options else ():
        how = How(upstream=upstream, alone=name)
        why = f"Where {name} alone requires a gradient, it is another."
        gap = differ(problem, ask(subject, problem, how).gradients[name], right[name], allow[name], why, how, severity=severity)
        if gap is not None:
            return gap
    drops = problem.dropout and "dropout" in subject.honours and problem.query.dtype == torch.float64
    return _of_dropout(subject, problem) if drops else None


def _of_dropout(subject, problem) -> Finding | None:
    """The output is linear in the values: the same draw of dropout on other values tells the slope without a small step."""
    upstream, seed = normal(*problem.shape[:3], problem.value.shape[3], seed=97).to(problem.query), 5
    how = How(upstream=upstream, training=True, seed=seed)
    moved = normal(*problem.value.shape, seed=98).to(problem.value)
    got = ask(subject, problem, how)
    there = ask(subject, problem.having(value=problem.value + moved), How(grad=True, training=True, seed=seed)).output.detach()
    rise = ((there - got.output.detach()) * upstream).sum()
    slope = (got.gradients["value"] * moved).sum()
    size = float((there.abs() * upstream.abs()).sum())
    return differ(problem, slope, rise, 1e-10 * (1 + size), "With dropout in training, the gradient of value is not the slope of the output.", how)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    """Along one random direction for each tensor: what the gradient promises, and how the right output rises."""
    upstream = normal(*problem.x.shape, seed=99).to(problem.x) * alive(subject, problem).all(1)[..., None]
    how = How(upstream=upstream)
    found = ask(subject, problem, how).gradients
    precision = 1e-6 if problem.x.dtype == torch.float64 else 1e5 * torch.finfo(problem.x.dtype).eps
    for n, (name, tensor) in enumerate(problem.floats().items()):
        if not bool(found[name].isfinite().all()):
            return wrong(problem, f"The gradient of {name} is not finite.", how)
        way = normal(*tensor.shape, seed=100 + n)
        there, back = (_total(problem.to(torch.float64), name, sign * STEP * way, upstream, subject) for sign in (1, -1))
        rise, promised = (there - back) / (2 * STEP), (found[name].double() * way).sum()
        size = (found[name].double().abs() * way.abs()).sum()
        gap = differ(problem, promised, rise, precision * (1 + float(size)), f"The gradient of {name} is not the slope of the output.", how)
        if gap is not None:
            return gap
    return None


def _total(problem: LayerProblem, name: str, step: Tensor, upstream: Tensor, subject) -> Tensor:
    moved = problem.having(**{name: problem.floats()[name] + step})
    return (moved.right(subject.conventions).output.nan_to_num() * upstream.double()).sum()


def problems(subject, level: Level):
    finest = torch.float64 if torch.float64 in subject.dtypes else subject.dtypes[0]
    yield from (rounded(entry, finest) for entry in _usual(subject, level))
    for dtype in subject.dtypes if subject.level == "call" else ():
        yield from (rounded(entry, dtype) for entry in _few(subject, level) if dtype != finest)


@pooled
def _few(level: Level):
    yield from (witnesses()["everything"], witnesses()["plain"], large()["many numbers"])


@pooled
def _usual(level: Level):
    yield from settings(level)
    yield problem(1, 2, 1, 4, 70, 33, 5, causal=True, query_offset=60, seed=142)
    yield large()["square of 32"]
    first_padded = torch.tensor([[False, True, True], [True] * 3])[:, None, None]
    yield problem(heads=2, groups=2, queries=3, keys=3, width=2, wide=2, causal=True, mask=first_padded, seed=59)
    yield problem(1, 2, 1, 3, 3, dropout=0.25, seed=60)
    yield problem(queries=4, keys=4, mask=lengths(4, 4, 0), seed=61)
    yield from (layers()[name] for name in ("everything", "rotary", "looking elsewhere", "alibi"))


ENTRY = Law(
    code="I14",
    statement="The gradient of every input is the slope of the output, also where a row sees nothing, also with dropout.",
    formula="⟨∇f, d⟩ = lim (f(x + εd) - f(x - εd)) / 2ε",
    when="the subject gives gradients; in float64 where it can",
    judge=judge,
    problems=problems,
    needs=frozenset({"gradients"}),
    levels=("call", "layer"),
)
