"""N5: a window of w shows w keys, with a mask and without, in prefill and in decoding."""

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.perturbations import one_hot_values
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, option_problems, padding_mask


def judge(subject, problem) -> Finding | None:
    if problem.window is None:
        return None
    fits = "value_width" in subject.supports or problem.shape[3] == problem.query.shape[3]
    named = one_hot_values(problem) if fits else problem
    right, allow, attending = named.expected(subject.conventions).output, tolerance(subject, named).output, attending_rows(subject, named)[..., None]
    for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports else (PLAIN,):
        why = f"With a window of {problem.window}, a row that sees n keys should give 1/n at each of them, and sees others."
        found = mismatch(named, subject.attend(named, mode).output, right, allow, why, mode, attending)
        if found is not None:
            return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    yield from (make_problem(1, 2, 2, 5, 5, 5, 5, causal=True, window=3, seed=102), make_problem(1, 1, 1, 1, 6, 6, 6, causal=True, window=3, seed=103))
    yield from (make_problem(1, 1, 1, 4, 4, window=(0, 0), seed=104), make_problem(queries=5, causal=True, window=1, seed=105))
    yield from (make_problem(queries=5, causal=True, window=2, mask=padding_mask(5, 5, 4), seed=106), make_problem(queries=5, window=(1, 2), seed=107))
    yield from (
        make_problem(queries=5, keys=7, causal=True, window=9, seed=108),
        option_problems()["window without right bound"],
        core_problems()["window without mask"],
    )
    yield from (
        make_problem(queries=6, keys=6, causal=True, window=4, sink=None, scale=-1.0, seed=109),
        make_problem(queries=5, causal=True, window=2, query_offset=1, seed=139),
    )


ENTRY = Invariant(
    code="N5",
    statement="A window of w shows a causal query its own key and the w - 1 before it: min(p + 1, w) keys, with or without a mask, in prefill as in decoding.",
    formula="seen(i) = {j : p - w < j ≤ p}",
    when="the subject has windows",
    judge=judge,
    problems=problems,
    needs=frozenset({"window"}),
)
