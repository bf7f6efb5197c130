"""I01: the output has a row for each query, as wide as a value; nothing is cut off and nothing is added."""

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, fault
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, padding_mask, size_problems


def judge(subject, problem) -> Finding | None:
    batch, heads, queries, keys = problem.shape
    of_layer = isinstance(problem, LayerProblem)
    x = problem.x if of_layer else problem.query
    right = list(x.shape) if of_layer else [batch, heads, queries, problem.value.shape[3]]
    averaged = subject.conventions.weights == "averaged"
    for mode in (PLAIN, WITH_WEIGHTS) if "weights" in subject.supports else (PLAIN,):
        found = subject.attend(problem, mode)
        if list(found.output.shape) != right:
            return fault(problem, f"The output has shape {list(found.output.shape)} and should have {right}.", mode)
        if found.output.dtype != x.dtype:
            return fault(problem, f"The output is {found.output.dtype} and what came in was {x.dtype}.", mode)
        shape = [batch, queries, keys] if averaged else [batch, heads, queries, keys]
        if mode.weights and list(found.weights.shape) != shape:
            return fault(problem, f"The weights have shape {list(found.weights.shape)} and should have {shape}.", mode)
    return None


def problems(subject, level: CheckLevel):
    """In every dtype, the last ones by a single problem."""
    first = _usual(subject, level)
    yield from first
    yield from (first[0].to(dtype) for dtype in subject.dtypes[1:] if first)


@fit_to_subject
def _usual(level: CheckLevel):
    padded_in_all_rows = make_problem(queries=5, mask=padding_mask(5, 3, 2), seed=40)
    yield from (*size_problems().values(), core_problems()["plain"], padded_in_all_rows, make_problem(keys=32, head_dim=8, value_dim=6, batch=1, seed=41))
    yield make_problem(1, 2, 1, 1, 4, seed=42)
    yield from layer_problems().values()


ENTRY = Invariant(
    code="I01",
    statement="The output has one row for each query of each head, as wide as a value, in the dtype of the query.",
    formula="[B,H,T,D] × [B,G,S,D] × [B,G,S,E] → [B,H,T,E]; of a layer [B,T,M] → [B,T,M]",
    when="always",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
