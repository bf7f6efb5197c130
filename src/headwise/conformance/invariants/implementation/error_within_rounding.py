"""I15: in every dtype the error is no larger than rounding explains: the check that sees every wrong number that it meets."""

import torch

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding, Severity
from headwise.conformance.comparison.tolerance import (
    WITH_WEIGHTS,
    attending_rows,
    determined_rows,
    mismatch,
    output_rows,
    severity_at_scores,
    systematic_error,
    tolerance,
)
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import as_dtype
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import (
    core_problems,
    large_problems,
    layer_problems,
    make_problem,
    option_pairs,
    option_problems,
    standard_problems,
)


def judge(subject, problem) -> Finding | None:
    of_layer = isinstance(problem, LayerProblem)
    dtype = problem.x.dtype if of_layer else problem.query.dtype
    low: Severity = "fragile" if dtype in (torch.float16, torch.bfloat16) else severity_at_scores(problem)
    found, right, allow = subject.attend(problem, PLAIN), problem.expected(subject.conventions), tolerance(subject, problem)
    known = determined_rows(subject, problem)
    gap = mismatch(
        problem, found.output, right.output, allow.output, "The output is further off than rounding explains.", PLAIN, output_rows(known, problem), low
    )
    if gap is None and found.lse is not None:
        attending = None if subject.conventions.dead_row == "zero" else attending_rows(subject, problem)  # lse of what a fill leaves is as it comes
        gap = mismatch(problem, found.lse, right.lse, allow.lse, "The lse is further off than rounding explains.", where=attending, severity=low)
    if gap is None and not of_layer:
        gap = systematic_error(problem, found.output, right.output, 4, "All numbers of the output together are")
    if gap is not None or "weights" not in subject.supports:
        return gap
    weights = subject.attend(problem, WITH_WEIGHTS).weights
    mean = weights.dim() == 3
    right_weights, allow_weights = (x.mean(1) if mean else x for x in (right.weights, allow.weights))
    counts = (known.all(1) if mean else known)[..., None]
    return mismatch(problem, weights, right_weights, allow_weights, "The weights are further off than rounding explains.", WITH_WEIGHTS, counts, low)


def problems(subject, level: CheckLevel):
    usual = subject.dtypes[0]
    yield from _large(subject, level)
    if level == "quick":
        first, others = _quick(subject, level), _few(subject, level)
    else:
        first, others = _full(subject, level), _quick(subject, level)
    yield from first
    for dtype in subject.dtypes:
        if dtype != usual:
            yield from (as_dtype(entry, dtype) for entry in others)


@fit_to_subject
def _few(level: CheckLevel):
    yield from (
        core_problems()["everything"],
        core_problems()["plain"],
        make_problem(1, 1, 1, 2, 2, 64, 2, seed=62),
        layer_problems()["everything"],
        large_problems()["many heads and queries"],
    )


@fit_to_subject
def _quick(level: CheckLevel):
    yield from (
        *standard_problems("quick"),
        large_problems()["many heads and queries"],
        option_problems()["long"],
        option_problems()["offset per row"],
        option_problems()["offset as a tensor"],
        *option_pairs(),
    )
    yield from (*layer_problems().values(), *_half_width())


@fit_to_subject
def _full(level: CheckLevel):
    yield from (*standard_problems("full"), *_random(40), *layer_problems().values(), *_half_width())


@fit_to_subject
def _large(level: CheckLevel):
    yield from large_problems().values()


def _half_width():
    """Scores of some thousands: beyond what half precision holds, were they not scaled first."""
    loud = make_problem(1, 1, 1, 2, 2, 64, 2, seed=63)
    yield loud.replace(query=torch.full_like(loud.query, 60.0), key=torch.full_like(loud.key, 60.0))
    opposite = torch.tensor([200.0, -200.0]).double()[None, None, :, None].expand(loud.query.shape)
    yield loud.replace(query=opposite, key=opposite)


def _random(count: int):
    """Sizes and options drawn with a fixed seed: where nobody thought of looking."""
    for seed in range(count):
        draw = torch.Generator().manual_seed(1000 + seed)

        def pick(*choices, draw=draw):
            return choices[int(torch.randint(len(choices), (), generator=draw))]

        groups, share = pick(1, 2, 3), pick(1, 2, 3)
        keys, queries = pick(1, 2, 5, 9, 17, 40, 66, 129), pick(1, 2, 3, 7, 16, 33, 67)
        options = {
            "causal": pick(True, False),
            "window": pick(None, None, 1, 3, (2, 1), (None, 0)),
            "scale": pick(None, None, -0.7, 0.0, 1.9),
            "softcap": pick(None, None, 3.0),
            "query_offset": pick(None, None, 2, torch.tensor(1)),
        }
        some = make_problem(pick(1, 2, 3), groups * share, groups, queries, keys, pick(1, 3, 8, 16), pick(1, 2, 5), seed=2000 + seed, **options)
        shapes = {"mask": pick(None, some.shape, (some.shape[0], 1, 1, keys), (queries, keys))}
        if shapes["mask"] is not None:
            some = some.replace(mask=torch.rand(shapes["mask"], generator=draw) < 0.8)
        bias, sink = pick(None, None, some.shape[1:]), pick(None, None, some.shape[1])
        some = some if bias is None else some.replace(bias=torch.randn(bias, generator=draw).double())
        yield some if sink is None else some.replace(sink=torch.randn(sink, generator=draw).double())


ENTRY = Invariant(
    code="I15",
    statement="In every dtype that it accepts, the output is right but for what rounding after every step explains.",
    formula="|got - right| ≤ bound(inputs, dtype)",
    when="always",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
