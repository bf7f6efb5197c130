"""I05: what one head asks moves that head and no other. M5 proves that heads can differ; this asks an implementation."""

from functools import lru_cache

import torch

from headwise.conformance.answer import PLAIN
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import WITH_WEIGHTS, attending_rows, fault, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import only_head
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_problem, standard_layer_problems, standard_problems
from headwise.conformance.problems.random_tensors import noise_like


def judge(subject, problem) -> Finding | None:
    if problem.shape[1] == 1:
        return None
    if isinstance(problem, LayerProblem):
        return _of_layer(subject, problem) if "settable" in subject.supports else None
    mode = WITH_WEIGHTS if "weights" in subject.supports and subject.conventions.weights == "per head" else PLAIN
    before = subject.attend(problem, mode)
    if mode.weights and before.weights.shape != problem.shape:
        return fault(problem, f"There is no pattern for each head: the weights have shape {list(before.weights.shape)}.", mode)
    for head in {0, problem.shape[1] - 1}:
        changed = asking_otherwise(problem, head)
        after, right, allow = subject.attend(changed, mode), changed.expected(subject.conventions), tolerance(subject, changed)
        others = (torch.arange(problem.shape[1]) != head)[None, :, None, None]
        attending = attending_rows(subject, problem)[..., None]
        said = f"The queries of head {head} were changed, and"
        found = mismatch(changed, after.output, before.output, 2 * allow.output, f"{said} another head moved.", mode, others)
        found = found or mismatch(changed, after.output, right.output, allow.output, f"{said} head {head} did not follow.", mode, ~others & attending)
        if found is None and mode.weights:
            found = mismatch(changed, after.weights, before.weights, 2 * allow.weights, f"{said} the weights of another head moved.", mode, others)
            found = found or mismatch(changed, after.weights, right.weights, allow.weights, f"{said} its weights did not follow.", mode, ~others & attending)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1024)
def asking_otherwise(problem, head: int):
    """The same, but for what one head asks."""
    query = problem.query.clone()
    query[:, head] += noise_like(query[:, head], seed=90)
    return problem.replace(query=query)


@lru_cache(maxsize=1024)
def seen_and_moved(problem, seen: int, moved: int):
    """Only one head writes; and the slices of another are changed."""
    alone = problem.replace(w_o=only_head(problem.params.w_o, seen))
    w_q = alone.params.w_q.clone()
    w_q[:, moved] += noise_like(w_q[:, moved], seed=91)
    return alone, alone.replace(w_q=w_q)


def _of_layer(subject, problem: LayerProblem) -> Finding | None:
    heads = problem.shape[1]
    for seen, moved in ((0, heads - 1), (heads - 1, 0)):
        alone, changed = seen_and_moved(problem, seen, moved)
        why = f"Only head {seen} writes; the slice of w_q of head {moved} was changed, and the output moved."
        found = mismatch(changed, subject.attend(changed).output, subject.attend(alone).output, 2 * tolerance(subject, changed).output, why)
        if found is not None:
            return found
    return None


@fit_to_subject
def problems(level: CheckLevel):
    yield from standard_problems(level)
    yield make_problem(queries=4, keys=4, groups=4, seed=45)
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="I05",
    statement="What one head asks moves that head, as it should, and no other.",
    formula="∂z_g / ∂q_h = 0 for g ≠ h",
    when="there are two heads or more; of a layer, its maps can be changed",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
)
