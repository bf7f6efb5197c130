"""N5: a window of w shows w keys, with a mask and without, in prefill and in decoding."""

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.perturbations import one_hot_values
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import lengths, odd_ones, problem, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.window is None:
        return None
    fits = "value_width" in subject.honours or problem.shape[3] == problem.query.shape[3]
    named = one_hot_values(problem) if fits else problem
    right, allow, live = named.right(subject.conventions).output, room(subject, named).output, alive(subject, named)[..., None]
    for how in (PLAINLY, WEIGHTS) if "weights" in subject.honours else (PLAINLY,):
        why = f"With a window of {problem.window}, a row that sees n keys should give 1/n at each of them, and sees others."
        found = differ(named, ask(subject, named, how).output, right, allow, why, how, live)
        if found is not None:
            return found
    return None


@pooled
def problems(level: Level):
    yield from (problem(1, 2, 2, 5, 5, 5, 5, causal=True, window=3, seed=102), problem(1, 1, 1, 1, 6, 6, 6, causal=True, window=3, seed=103))
    yield from (problem(1, 1, 1, 4, 4, window=(0, 0), seed=104), problem(queries=5, causal=True, window=1, seed=105))
    yield from (problem(queries=5, causal=True, window=2, mask=lengths(5, 5, 4), seed=106), problem(queries=5, window=(1, 2), seed=107))
    yield from (problem(queries=5, keys=7, causal=True, window=9, seed=108), odd_ones()["window far behind"], witnesses()["window without mask"])
    yield from (
        problem(queries=6, keys=6, causal=True, window=4, sink=None, scale=-1.0, seed=109),
        problem(queries=5, causal=True, window=2, query_offset=1, seed=139),
    )


ENTRY = Law(
    code="N5",
    statement="A window of w shows a causal query its own key and the w - 1 before it: min(p + 1, w) keys, with or without a mask, in prefill as in decoding.",
    formula="seen(i) = {j : p - w < j ≤ p}",
    when="the subject has windows",
    judge=judge,
    problems=problems,
    needs=frozenset({"window"}),
)
