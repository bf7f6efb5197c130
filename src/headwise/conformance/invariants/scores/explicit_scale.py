"""N11: a scale is a number like any other: negative, 0, large, with every mask."""

from functools import lru_cache

from headwise.axes import Tensor
from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.perturbations import changed
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, size_problems

SCALES = (-1.0, 0.0, -0.5, 0.3, 2.5)
EXTREMES = ((32.0, 2.0**-5), (-32.0, 2.0**-5), (2.0**-11, 2.0**9))  # with queries made so much longer that scores stay moderate


def judge(subject, problem) -> Finding | None:
    attending, width = attending_rows(subject, problem)[..., None], problem.query.shape[3]
    for scale in SCALES:
        scaled = changed(problem, scale=scale)
        right, allow = scaled.expected(subject.conventions).output, tolerance(subject, scaled).output
        for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports and scale <= 0 else (PLAIN,):
            found = mismatch(scaled, subject.attend(scaled, mode).output, right, allow, f"With scale={scale} the output is wrong.", mode, attending)
            if found is not None:
                return found
        turned = changed(problem, scale=None, query=_times(problem.query, scale * width**0.5))
        why = f"scale={scale} gives another output than queries that are {scale} · √D times as long."
        found = mismatch(scaled, subject.attend(scaled).output, subject.attend(turned).output, 2 * allow, why, where=attending)
        if found is not None:
            return found
    for scale, factor in EXTREMES:
        extreme = changed(problem, scale=scale, query=_times(problem.query, factor))
        right, allow = extreme.expected(subject.conventions).output, tolerance(subject, extreme).output
        found = mismatch(extreme, subject.attend(extreme).output, right, allow, f"With scale={scale} the output is wrong.", where=attending)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1024)
def _times(x: Tensor, factor: float) -> Tensor:
    return x * factor


@fit_to_subject
def problems(level: CheckLevel):
    yield from (make_problem(1, 2, 2, 2, 2, 1, 1, causal=True, seed=123), core_problems()["plain"], core_problems()["causal"], core_problems()["mask by head"])
    yield make_problem(1, 2, 1, 3, 3, softcap=2.0, causal=True, seed=125)
    if level == "full":
        yield from (size_problems()["square"], make_problem(1, 1, 1, 4, 4, 8, 3, seed=124))


ENTRY = Invariant(
    code="N11",
    statement="Any real scale is honoured to the letter: negative, 0, small and large.",
    formula="attend(q, k, v, scale = c) = attend(c·√D·q, k, v)",
    when="the subject takes a scale",
    judge=judge,
    problems=problems,
    needs=frozenset({"scale"}),
)
