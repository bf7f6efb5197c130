"""N11: a scale is a number like any other: negative, 0, large, with every mask."""

from functools import lru_cache

from headwise.axes import Tensor
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.perturbations import having
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import problem, sizes, witnesses
from headwise.conformance.report.finding import Finding

SCALES = (-1.0, 0.0, -0.5, 0.3, 2.5)
EXTREMES = ((32.0, 2.0**-5), (-32.0, 2.0**-5), (2.0**-11, 2.0**9))  # with queries made so much longer that scores stay moderate


def judge(subject, problem) -> Finding | None:
    live, width = alive(subject, problem)[..., None], problem.query.shape[3]
    for scale in SCALES:
        scaled = having(problem, scale=scale)
        right, allow = scaled.right(subject.conventions).output, room(subject, scaled).output
        for how in (PLAINLY, WEIGHTS) if "weights" in subject.honours and scale <= 0 else (PLAINLY,):
            found = differ(scaled, ask(subject, scaled, how).output, right, allow, f"With scale={scale} the output is wrong.", how, live)
            if found is not None:
                return found
        turned = having(problem, scale=None, query=_times(problem.query, scale * width**0.5))
        why = f"scale={scale} gives another output than queries that are {scale} · √D times as long."
        found = differ(scaled, ask(subject, scaled).output, ask(subject, turned).output, 2 * allow, why, where=live)
        if found is not None:
            return found
    for scale, factor in EXTREMES:
        extreme = having(problem, scale=scale, query=_times(problem.query, factor))
        right, allow = extreme.right(subject.conventions).output, room(subject, extreme).output
        found = differ(extreme, ask(subject, extreme).output, right, allow, f"With scale={scale} the output is wrong.", where=live)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1024)
def _times(x: Tensor, factor: float) -> Tensor:
    return x * factor


@pooled
def problems(level: Level):
    yield from (problem(1, 2, 2, 2, 2, 1, 1, causal=True, seed=123), witnesses()["plain"], witnesses()["causal"], witnesses()["mask by head"])
    yield problem(1, 2, 1, 3, 3, softcap=2.0, causal=True, seed=125)
    if level == "full":
        yield from (sizes()["square"], problem(1, 1, 1, 4, 4, 8, 3, seed=124))


ENTRY = Law(
    code="N11",
    statement="Any real scale is honoured to the letter: negative, 0, small and large.",
    formula="attend(q, k, v, scale = c) = attend(c·√D·q, k, v)",
    when="the subject takes a scale",
    judge=judge,
    problems=problems,
    needs=frozenset({"scale"}),
)
