"""N4: with fewer queries than keys, or more, the causal triangle sits in the corner that was declared."""

from headwise.attention.position import NOPE
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import attending_rows, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import one_hot_values
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, make_problem, size_problems, standard_layer_problems


def judge(subject, problem) -> Finding | None:
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem)
    if not problem.causal or problem.shape[2] == problem.shape[3]:
        return None
    fits = "value_width" in subject.supports or problem.shape[3] == problem.query.shape[3]
    named = one_hot_values(problem) if fits else problem
    attending = attending_rows(subject, named)[..., None]
    right, allow = named.expected(subject.conventions).output, tolerance(subject, named).output
    where = f"in the {subject.conventions.corner} corner" if named.query_offset is None else f"from position {named.query_offset} on"
    return mismatch(named, subject.attend(named).output, right, allow, f"The causal triangle should sit {where}, and queries see other keys.", where=attending)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    """With a past, queries stand behind it: for causality and for positions."""
    if not problem.chunks or (problem.position == NOPE and not problem.causal):
        return None
    right, allow = problem.expected(subject.conventions).output, tolerance(subject, problem).output
    where = attending_rows(subject, problem).all(1)[..., None]
    return mismatch(problem, subject.attend(problem).output, right, allow, "Queries that come after a past do not stand behind it.", where=where)


@fit_to_subject
def problems(level: CheckLevel):
    yield from (
        make_problem(1, 1, 1, 1, 5, causal=True, seed=97),
        make_problem(1, 2, 1, 2, 5, 5, 5, causal=True, seed=98),
        size_problems()["more queries than keys"],
    )
    yield from (make_problem(1, 1, 1, 5, 2, 2, 2, causal=True, seed=99), core_problems()["causal"], core_problems()["window without mask"])
    yield from (make_problem(causal=True, query_offset=0, seed=100), make_problem(causal=True, query_offset=1, seed=101))
    yield from (make_problem(causal=True, query_offset=-1, seed=135), make_problem(queries=1, causal=True, query_offset=1, seed=136))
    yield from (make_problem(causal=True, window=2, query_offset=1, seed=137), make_problem(causal=True, query_offset=4, seed=138))
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="N4",
    statement="Where there are fewer queries than keys, or more, the causal triangle sits in the declared corner, and positions with it.",
    formula="j ≤ i + (S - T) bottom-right;  j ≤ i top-left",
    when="causal, T ≠ S; of a layer, with a past",
    judge=judge,
    problems=problems,
    needs=frozenset({"causal"}),
    levels=("call", "layer"),
)
