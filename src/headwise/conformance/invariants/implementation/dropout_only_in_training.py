"""I22: outside training dropout does nothing; in training it drops a share of the weights, each by its own draw, and scales up the rest."""

from headwise.conformance.answer import CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import fault, mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.perturbations import one_hot_values
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import make_layer_problem, make_problem
from headwise.conformance.problems.random_tensors import random_normal

TRAINING = CallMode(training=True, seed=1)


def judge(subject, problem) -> Finding | None:
    if not problem.dropout:
        return None
    off = problem.replace(dropout=0.0)
    allow, why = 2 * tolerance(subject, problem).output, "Outside training, dropout changes the output."
    found = mismatch(problem, subject.attend(problem).output, subject.attend(off).output, allow, why)
    if found is None and bool((subject.attend(problem, TRAINING).output == subject.attend(problem, CallMode(training=True, seed=2)).output).all()):
        found = fault(problem, "In training, two draws of dropout give the same.", TRAINING)
    if found is not None or isinstance(problem, LayerProblem) or problem.mask is not None or problem.shape[3] != problem.value.shape[3]:
        return found
    return _draws(subject, one_hot_values(problem))


def _draws(subject, problem) -> Finding | None:
    """With uniform weights and values that name their keys, the output shows what was dropped."""
    keys, p = problem.shape[3], problem.dropout
    shown = subject.attend(problem, TRAINING).output.detach().double() * keys * (1 - p)
    kept = shown.round()
    found = mismatch(problem, shown, kept.clamp(0, 1), 0.02, f"In training each weight should be 0 or 1/(1 - {p}) of itself.", TRAINING)
    share, spread = float(kept.mean()), 6 * (p * (1 - p) / kept.numel()) ** 0.5
    if found is None and abs(share - (1 - p)) > spread:
        found = fault(problem, f"In training {1 - share:.3f} of the weights were dropped and not {p}.", TRAINING)
    if found is not None:
        return found
    for name, axis in (("heads", 1), ("rows of the batch", 0), ("queries", 2)):
        if kept.shape[axis] > 1 and bool((kept.narrow(axis, 1, 1) == kept.narrow(axis, 0, 1)).all()):
            return fault(problem, f"Two {name} had the same weights dropped: each should have a draw of its own.", TRAINING)
    return _slope(subject, problem) if "gradients" in subject.supports else None


def _slope(subject, problem) -> Finding | None:
    """The output is linear in the values, so that values · their gradient is output · upstream."""
    upstream = random_normal(*problem.shape[:3], problem.value.shape[3], seed=104).to(problem.query)
    mode = CallMode(upstream=upstream, training=True, seed=1)
    got = subject.attend(problem, mode)
    right = (got.output.detach().double() * upstream.double()).sum()
    pulled = (got.gradients["value"].double() * problem.value.double()).sum()
    why = "In training, the gradient of the values does not belong to the weights that were kept."
    return mismatch(problem, pulled, right, 1e-3 * float((got.output.detach().abs() * upstream.abs()).sum()), why, mode)


@fit_to_subject
def problems(level: CheckLevel):
    yield make_problem(2, 3, 3, 8, 16, 16, 16, dropout=0.25, seed=79)
    yield make_problem(2, 2, 2, 5, 16, 16, 16, dropout=0.5, seed=80)
    yield make_layer_problem(dropout=0.5, seed=81)


ENTRY = Invariant(
    code="I22",
    statement="Dropout does nothing outside training; in training it drops the stated share, each weight by its own draw, and scales up the rest.",
    formula="E[kept ∘ w] = w,  kept ∈ {0, 1/(1 - p)}",
    when="the subject has dropout",
    judge=judge,
    problems=problems,
    needs=frozenset({"dropout"}),
    levels=("call", "layer"),
)
