"""I10: scores are divided by the root of a head's own width, or multiplied by what was asked for."""

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room, rows
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import having
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    width = problem.params.w_q.shape[2] if isinstance(problem, LayerProblem) else problem.query.shape[3]
    if problem.scale is not None or not width:
        return None
    live = rows(alive(subject, problem), problem)
    asked = (None, width**-0.5, 2 * width**-0.5) if "scale" in subject.honours else (None,)
    for scale in asked:
        scaled = having(problem, scale=scale)
        right, allow = scaled.right(subject.conventions).output, room(subject, scaled).output
        for how in (PLAINLY, WEIGHTS) if "weights" in subject.honours else (PLAINLY,):
            said = f"1/√{width}" if scale is None else f"{scale:.4g}"
            found = differ(scaled, ask(subject, scaled, how).output, right, allow, f"Scores should be multiplied by {said}, and are not.", how, live)
            if found is not None:
                return found
    return None


@pooled
def problems(level: Level):
    yield from (witnesses()["plain"], witnesses()["causal"], sizes()["eight heads"], sizes()["one head"])
    yield from (problem(heads=2, groups=2, width=9, wide=9, seed=51), problem(1, 2, 1, 3, 3, 256, 4, seed=52), problem(width=1, wide=1, seed=53))
    yield from (layers()[name] for name in ("plain", "causal", "rotary", "one head"))


ENTRY = Law(
    code="I10",
    statement="Scores are q·k over the root of the width of a head, unless a scale is given, which then holds to the letter.",
    formula="s = q·k / √D",
    when="always; nothing shows at D = 1 unless a scale is given",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
