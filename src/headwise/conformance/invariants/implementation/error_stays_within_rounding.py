"""I15: in every dtype the error is no larger than rounding explains: the check that sees every wrong number that it meets."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, declared, differ, leaning, room, rows
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import loudness, rounded
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import large, layers, odd_ones, pairs, problem, settings, witnesses
from headwise.conformance.report.finding import Finding, Severity


def judge(subject, problem) -> Finding | None:
    of_layer = isinstance(problem, LayerProblem)
    dtype = problem.x.dtype if of_layer else problem.query.dtype
    low: Severity = "fragile" if dtype in (torch.float16, torch.bfloat16) else loudness(problem)
    found, right, allow = ask(subject, problem, PLAINLY), problem.right(subject.conventions), room(subject, problem)
    known = declared(subject, problem)
    gap = differ(problem, found.output, right.output, allow.output, "The output is further off than rounding explains.", PLAINLY, rows(known, problem), low)
    if gap is None and found.lse is not None:
        live = None if subject.conventions.dead_row == "zero" else alive(subject, problem)  # lse of what a fill leaves is as it comes
        gap = differ(problem, found.lse, right.lse, allow.lse, "The lse is further off than rounding explains.", where=live, severity=low)
    if gap is None and not of_layer:
        gap = leaning(problem, found.output, right.output, 4, "All numbers of the output together are")
    if gap is not None or "weights" not in subject.honours:
        return gap
    weights = ask(subject, problem, WEIGHTS).weights
    mean = weights.dim() == 3
    right_weights, allow_weights = (x.mean(1) if mean else x for x in (right.weights, allow.weights))
    counts = (known.all(1) if mean else known)[..., None]
    return differ(problem, weights, right_weights, allow_weights, "The weights are further off than rounding explains.", WEIGHTS, counts, low)


def problems(subject, level: Level):
    usual = subject.dtypes[0]
    yield from _large(subject, level)
    if level == "quick":
        first, others = _quick(subject, level), _few(subject, level)
    else:
        first, others = _full(subject, level), _quick(subject, level)
    yield from first
    for dtype in subject.dtypes:
        if dtype != usual:
            yield from (rounded(entry, dtype) for entry in others)


@pooled
def _few(level: Level):
    yield from (witnesses()["everything"], witnesses()["plain"], problem(1, 1, 1, 2, 2, 64, 2, seed=62), layers()["everything"], large()["many numbers"])


@pooled
def _quick(level: Level):
    yield from (*settings("quick"), large()["many numbers"], odd_ones()["long"], odd_ones()["offset a row"], odd_ones()["offset as a tensor"], *pairs())
    yield from (*layers().values(), *_half_width())


@pooled
def _full(level: Level):
    yield from (*settings("full"), *_random(40), *layers().values(), *_half_width())


@pooled
def _large(level: Level):
    yield from large().values()


def _half_width():
    """Scores of some thousands: beyond what half precision holds, were they not scaled first."""
    loud = problem(1, 1, 1, 2, 2, 64, 2, seed=63)
    yield loud.having(query=torch.full_like(loud.query, 60.0), key=torch.full_like(loud.key, 60.0))
    opposite = torch.tensor([200.0, -200.0]).double()[None, None, :, None].expand(loud.query.shape)
    yield loud.having(query=opposite, key=opposite)


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
        some = problem(pick(1, 2, 3), groups * share, groups, queries, keys, pick(1, 3, 8, 16), pick(1, 2, 5), seed=2000 + seed, **options)
        shapes = {"mask": pick(None, some.shape, (some.shape[0], 1, 1, keys), (queries, keys))}
        if shapes["mask"] is not None:
            some = some.having(mask=torch.rand(shapes["mask"], generator=draw) < 0.8)
        bias, sink = pick(None, None, some.shape[1:]), pick(None, None, some.shape[1])
        some = some if bias is None else some.having(bias=torch.randn(bias, generator=draw).double())
        yield some if sink is None else some.having(sink=torch.randn(sink, generator=draw).double())


ENTRY = Law(
    code="I15",
    statement="In every dtype that it accepts, the output is right but for what rounding after every step explains.",
    formula="|got - right| ≤ bound(inputs, dtype)",
    when="always",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
