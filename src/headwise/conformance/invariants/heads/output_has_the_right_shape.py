"""I01: the output has a row for each query, as wide as a value; nothing is cut off and nothing is added."""

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, ask, wrong
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers, lengths, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    batch, heads, queries, keys = problem.shape
    of_layer = isinstance(problem, LayerProblem)
    x = problem.x if of_layer else problem.query
    right = list(x.shape) if of_layer else [batch, heads, queries, problem.value.shape[3]]
    averaged = subject.conventions.weights == "averaged"
    for how in (PLAINLY, WEIGHTS) if "weights" in subject.honours else (PLAINLY,):
        found = ask(subject, problem, how)
        if list(found.output.shape) != right:
            return wrong(problem, f"The output has shape {list(found.output.shape)} and should have {right}.", how)
        if found.output.dtype != x.dtype:
            return wrong(problem, f"The output is {found.output.dtype} and what came in was {x.dtype}.", how)
        shape = [batch, queries, keys] if averaged else [batch, heads, queries, keys]
        if how.weights and list(found.weights.shape) != shape:
            return wrong(problem, f"The weights have shape {list(found.weights.shape)} and should have {shape}.", how)
    return None


def problems(subject, level: Level):
    """In every dtype, the last ones by a single problem."""
    first = _usual(subject, level)
    yield from first
    yield from (first[0].to(dtype) for dtype in subject.dtypes[1:] if first)


@pooled
def _usual(level: Level):
    padded_in_all_rows = problem(queries=5, mask=lengths(5, 3, 2), seed=40)
    yield from (*sizes().values(), witnesses()["plain"], padded_in_all_rows, problem(keys=32, width=8, wide=6, batch=1, seed=41))
    yield problem(1, 2, 1, 1, 4, seed=42)
    yield from layers().values()


ENTRY = Law(
    code="I01",
    statement="The output has one row for each query of each head, as wide as a value, in the dtype of the query.",
    formula="[B,H,T,D] × [B,G,S,D] × [B,G,S,E] → [B,H,T,E]; of a layer [B,T,M] → [B,T,M]",
    when="always",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
