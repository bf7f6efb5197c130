"""I07: with causal attention a query sees its own position, and nothing after it."""

import torch

from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, mismatch, output_rows, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.oracles.attention_oracle import query_positions
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import with_key_changed
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, make_problem, option_problems, size_problems


def judge(subject, problem) -> Finding | None:
    if not problem.causal:
        return None
    inner = problem.inner_problem() if isinstance(problem, LayerProblem) else problem
    p = torch.from_numpy(query_positions(inner, subject.conventions))
    keys = range(problem.shape[3])
    for mode in _hows(subject, problem):
        before, allow = subject.attend(problem, mode), tolerance(subject, problem)
        for j in keys[mode.weights :: max(len(keys) // (3 if mode is PLAIN else 2), 1)]:
            changed, still = with_key_changed(problem, j)
            after = subject.attend(changed, mode).output
            early = ((p < j) & still)[:, None] & attending_rows(subject, problem)  # the mean of all values is of the future too
            why = f"Token {j} was changed, and a query before it moved."
            found = mismatch(changed, after, before.output, 2 * allow.output, why, mode, output_rows(early, problem))
            own = ((p == j) & still)[:, None].expand(problem.shape[:3])
            right = changed.expected(subject.conventions).output
            why = f"Key {j} was changed, and the query at that position did not follow."
            found = found or mismatch(changed, after, right, tolerance(subject, changed).output, why, mode, output_rows(own, problem))
            if found is not None:
                return found
    return None


def _hows(subject, problem) -> list[CallMode]:
    return [PLAIN, *([WITH_WEIGHTS] if "weights" in subject.supports else [])]


@fit_to_subject
def problems(level: CheckLevel):
    yield from (
        core_problems()["causal"],
        core_problems()["negative scale"],
        size_problems()["square"],
        size_problems()["more queries than keys"],
        option_problems()["scale 0"],
    )
    yield from (make_problem(queries=3, keys=3, causal=True, seed=47), make_problem(queries=4, keys=4, causal=True, dropout=0.1, seed=48))
    if level == "full":
        yield from (*option_problems().values(), *layer_problems().values())
    yield from (layer_problems()[name] for name in ("causal", "everything", "in chunks", "rotary in chunks"))


ENTRY = Invariant(
    code="I07",
    statement="A causal query sees its own position and none after it.",
    formula="j > p_i:  ∂z_i / ∂k_j = ∂z_i / ∂v_j = 0",
    when="causal is asked for; the gradient to its own token through the query is no leak",
    judge=judge,
    problems=problems,
    needs=frozenset({"causal"}),
    levels=("call", "layer"),
)
