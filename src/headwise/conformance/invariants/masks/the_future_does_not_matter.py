"""I07: with causal attention a query sees its own position, and nothing after it."""

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.attention_oracle import place
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, room, rows
from headwise.conformance.problems.answer import PLAINLY, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import disturbed
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layers, odd_ones, problem, sizes, witnesses
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if not problem.causal:
        return None
    inner = problem.inner() if isinstance(problem, LayerProblem) else problem
    p = torch.from_numpy(place(inner, subject.conventions))
    keys = range(problem.shape[3])
    for how in _hows(subject, problem):
        before, allow = ask(subject, problem, how), room(subject, problem)
        for j in keys[how.weights :: max(len(keys) // (3 if how is PLAINLY else 2), 1)]:
            changed, still = disturbed(problem, j)
            after = ask(subject, changed, how).output
            early = ((p < j) & still)[:, None] & alive(subject, problem)  # the mean of all values is of the future too
            why = f"Token {j} was changed, and a query before it moved."
            found = differ(changed, after, before.output, 2 * allow.output, why, how, rows(early, problem))
            own = ((p == j) & still)[:, None].expand(problem.shape[:3])
            right = changed.right(subject.conventions).output
            why = f"Key {j} was changed, and the query at that position did not follow."
            found = found or differ(changed, after, right, room(subject, changed).output, why, how, rows(own, problem))
            if found is not None:
                return found
    return None


def _hows(subject, problem) -> list[How]:
    return [PLAINLY, *([WEIGHTS] if "weights" in subject.honours else [])]


@pooled
def problems(level: Level):
    yield from (witnesses()["causal"], witnesses()["negative scale"], sizes()["square"], sizes()["more queries than keys"], odd_ones()["scale 0"])
    yield from (problem(queries=3, keys=3, causal=True, seed=47), problem(queries=4, keys=4, causal=True, dropout=0.1, seed=48))
    if level == "full":
        yield from (*odd_ones().values(), *layers().values())
    yield from (layers()[name] for name in ("causal", "everything", "in chunks", "rotary in chunks"))


ENTRY = Law(
    code="I07",
    statement="A causal query sees its own position and none after it.",
    formula="j > p_i:  ∂z_i / ∂k_j = ∂z_i / ∂v_j = 0",
    when="causal is asked for; the gradient to its own token through the query is no leak",
    judge=judge,
    problems=problems,
    needs=frozenset({"causal"}),
    levels=("call", "layer"),
)
