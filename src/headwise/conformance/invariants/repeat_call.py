"""A rule of a call as an invariant, so that a failure can be minimised: the same call is made again, and must break no rule."""

from dataclasses import replace

from headwise.conformance.answer import CallMode
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.random_tensors import random_normal
from headwise.conformance.problems.subject import Subject


def repeat_call(mode: CallMode) -> Invariant:
    """An invariant that calls the subject in this mode, and nothing else. An upstream gradient is drawn anew in the shape of the problem's output."""

    def judge(subject: Subject, problem: AnyProblem) -> None:
        shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], problem.value.shape[3])
        upstream = None if mode.upstream is None else random_normal(*shape, seed=105).to(next(iter(problem.float_tensors().values())))
        subject.attend(problem, replace(mode, upstream=upstream))

    statement = "A call returns, or refuses with NotImplementedError what it cannot compute."
    return Invariant(code="", statement=statement, formula="f(x) is a tensor", levels=("call", "layer"), judge=judge)
