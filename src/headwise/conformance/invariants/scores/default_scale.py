"""I10: scores are divided by the root of a head's own width, or multiplied by what was asked for."""

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import changed
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, size_problems


def judge(subject, problem) -> Finding | None:
    width = problem.params.w_q.shape[2] if isinstance(problem, LayerProblem) else problem.query.shape[3]
    if problem.scale is not None or not width:
        return None
    attending = output_rows(attending_rows(subject, problem), problem)
    asked = (None, width**-0.5, 2 * width**-0.5) if "scale" in subject.supports else (None,)
    for scale in asked:
        scaled = changed(problem, scale=scale)
        right, allow = scaled.expected(subject.conventions).output, tolerance(subject, scaled).output
        for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports else (PLAIN,):
            said = f"1/√{width}" if scale is None else f"{scale:.4g}"
            found = mismatch(scaled, subject.attend(scaled, mode).output, right, allow, f"Scores should be multiplied by {said}, and are not.", mode, attending)
            if found is not None:
                return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    yield from (core_problems()["plain"], core_problems()["causal"], size_problems()["eight heads"], size_problems()["one head"])
    yield from (
        make_problem(heads=2, groups=2, head_dim=9, value_dim=9, seed=51),
        make_problem(1, 2, 1, 3, 3, 256, 4, seed=52),
        make_problem(head_dim=1, value_dim=1, seed=53),
    )
    yield from (layer_problems()[name] for name in ("plain", "causal", "rotary", "one head"))


ENTRY = Invariant(
    code="I10",
    statement="Scores are q·k over the root of the width of a head, unless a scale is given, which then holds to the letter.",
    formula="s = q·k / √D",
    when="always; nothing shows at D = 1 unless a scale is given",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
