"""I05: what one head asks moves that head and no other. M5 proves that heads can differ; this asks an implementation."""

from functools import lru_cache

import torch

from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.oracles.tolerance import WEIGHTS, alive, ask, differ, noise_like, room, wrong
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import only
from headwise.conformance.problems.problem_filter import pooled
from headwise.conformance.problems.problem_pool import layer_settings, problem, settings
from headwise.conformance.report.finding import Finding


def judge(subject, problem) -> Finding | None:
    if problem.shape[1] == 1:
        return None
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem) if "settable" in subject.honours else None
    how = WEIGHTS if "weights" in subject.honours and subject.conventions.weights == "per head" else PLAINLY
    before = ask(subject, problem, how)
    if how.weights and before.weights.shape != problem.shape:
        return wrong(problem, f"There is no pattern for each head: the weights have shape {list(before.weights.shape)}.", how)
    for head in {0, problem.shape[1] - 1}:
        changed = asking_otherwise(problem, head)
        after, right, allow = ask(subject, changed, how), changed.right(subject.conventions), room(subject, changed)
        others = (torch.arange(problem.shape[1]) != head)[None, :, None, None]
        live = alive(subject, problem)[..., None]
        said = f"The queries of head {head} were changed, and"
        found = differ(changed, after.output, before.output, 2 * allow.output, f"{said} another head moved.", how, others)
        found = found or differ(changed, after.output, right.output, allow.output, f"{said} head {head} did not follow.", how, ~others & live)
        if found is None and how.weights:
            found = differ(changed, after.weights, before.weights, 2 * allow.weights, f"{said} the weights of another head moved.", how, others)
            found = found or differ(changed, after.weights, right.weights, allow.weights, f"{said} its weights did not follow.", how, ~others & live)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1024)
def asking_otherwise(problem, head: int):
    """The same, but for what one head asks."""
    query = problem.query.clone()
    query[:, head] += noise_like(query[:, head], seed=90)
    return problem.having(query=query)


@lru_cache(maxsize=1024)
def seen_and_moved(problem, seen: int, moved: int):
    """Only one head writes; and the slices of another are changed."""
    alone = problem.having(w_o=only(problem.params.w_o, seen))
    w_q = alone.params.w_q.clone()
    w_q[:, moved] += noise_like(w_q[:, moved], seed=91)
    return alone, alone.having(w_q=w_q)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    heads = problem.shape[1]
    for seen, moved in ((0, heads - 1), (heads - 1, 0)):
        alone, changed = seen_and_moved(problem, seen, moved)
        why = f"Only head {seen} writes; the slice of w_q of head {moved} was changed, and the output moved."
        found = differ(changed, ask(subject, changed).output, ask(subject, alone).output, 2 * room(subject, changed).output, why)
        if found is not None:
            return found
    return None


@pooled
def problems(level: Level):
    yield from settings(level)
    yield problem(queries=4, keys=4, groups=4, seed=45)
    yield from layer_settings(level)


ENTRY = Law(
    code="I05",
    statement="What one head asks moves that head, as it should, and no other.",
    formula="∂z_g / ∂q_h = 0 for g ≠ h",
    when="there are two heads or more; of a layer, its maps can be changed",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
