"""N4: with fewer queries than keys, or more, the causal triangle sits in the corner that was declared."""

from headwise.attention.position import NOPE
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import alive, ask, differ, room
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import one_hot_values
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer_settings, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem)
    if not problem.causal or problem.shape[2] == problem.shape[3]:
        return None
    fits = "value_width" in subject.honours or problem.shape[3] == problem.query.shape[3]
    named = one_hot_values(problem) if fits else problem
    live = alive(subject, named)[..., None]
    right, allow = named.right(subject.conventions).output, room(subject, named).output
    where = f"in the {subject.conventions.corner} corner" if named.query_offset is None else f"from position {named.query_offset} on"
    return differ(named, ask(subject, named).output, right, allow, f"The causal triangle should sit {where}, and queries see other keys.", where=live)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    """With a past, queries stand behind it: for causality and for positions."""
    if not problem.chunks or (problem.position == NOPE and not problem.causal):
        return None
    right, allow = problem.right(subject.conventions).output, room(subject, problem).output
    where = alive(subject, problem).all(1)[..., None]
    return differ(problem, ask(subject, problem).output, right, allow, "Queries that come after a past do not stand behind it.", where=where)


@pooled
def problems(level: Level):
    yield from (problem(1, 1, 1, 1, 5, causal=True, seed=97), problem(1, 2, 1, 2, 5, 5, 5, causal=True, seed=98), sizes()["more queries than keys"])
    yield from (problem(1, 1, 1, 5, 2, 2, 2, causal=True, seed=99), witnesses()["causal"], witnesses()["window without mask"])
    yield from (problem(causal=True, query_offset=0, seed=100), problem(causal=True, query_offset=1, seed=101))
    yield from (problem(causal=True, query_offset=-1, seed=135), problem(queries=1, causal=True, query_offset=1, seed=136))
    yield from (problem(causal=True, window=2, query_offset=1, seed=137), problem(causal=True, query_offset=4, seed=138))
    yield from layer_settings(level)


ENTRY = Law(
    code="N4",
    statement="Where there are fewer queries than keys, or more, the causal triangle sits in the declared corner, and positions with it.",
    formula="j ≤ i + (S - T) bottom-right;  j ≤ i top-left",
    when="causal, T ≠ S; of a layer, with a past",
    judge=judge,
    problems=problems,
    needs=frozenset({"causal"}),
    levels=("call", "layer"),
)
