"""I20: the same call gives the same bits, whatever was called before; and what was given comes back as it was."""

from copy import deepcopy
from pickle import PicklingError

import torch

from headwise.conformance.answer import Answer
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import fault, mismatch
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import fit_to_subject
from headwise.conformance.problems.problem_pool import core_problems, layer_problems, option_problems, size_problems, standard_layer_problems


def judge(subject, problem) -> Finding | None:
    untouched, before = _copy(subject), {name: x.clone() for name, x in problem.float_tensors().items()}
    first, again = subject.attend(problem), subject.attend(problem)
    for name, x in problem.float_tensors().items():
        if not torch.equal(x.nan_to_num(), before[name].nan_to_num()):
            x.data.copy_(before[name])
            return fault(problem, f"The call changed its input {name}.")
    found = _same(problem, again, first, "The same call twice gives different bits.")
    other = moved(problem)
    if found is not None or other is None or untouched is None:
        return found
    return _same(other, subject.attend(other), untouched.attend(other), "What was called before changes the answer.")


def _copy(subject):
    """The subject as it is now; None where it cannot be copied, and so cannot be asked what it would have said."""
    try:
        return deepcopy(subject)
    except (TypeError, AttributeError, RuntimeError, PicklingError):
        return None


def moved(problem):
    """Another problem with tensors of the same shapes, for whoever remembers too little of the last one."""
    if not isinstance(problem, LayerProblem):
        return problem.replace(query=problem.query.flip(0, 2), query_offset=1) if problem.causal and problem.query_offset is None else None
    return problem.replace(chunks=(problem.shape[2] - 1, 1), x=problem.x.flip(1)) if problem.chunks and problem.shape[2] > 1 else None


def _same(problem, got: Answer, right: Answer, why: str) -> Finding | None:
    return mismatch(problem, got.output, right.output, 0.0, why)


@fit_to_subject
def problems(level: CheckLevel):
    yield layer_problems()["rotary in chunks"]  # first, as long as nothing is remembered yet
    yield from (*core_problems().values(), size_problems()["square"], option_problems()["long"])
    yield from standard_layer_problems(level)


ENTRY = Invariant(
    code="I20",
    statement="The same call gives the same bits, nothing is remembered from one call to the next, and no input is changed.",
    formula="f(x) = f(x), also after f(y)",
    when="dropout is off",
    judge=judge,
    problems=problems,
    levels=("call", "layer"),
    repeats_calls=True,
)
