"""A law for bad manners: asked once more in the same way, it answers."""

from dataclasses import replace
from typing import Any

from headwise.conformance.invariants.law import Law
from headwise.conformance.oracles.tolerance import normal
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem


def asking(how: How) -> Law:
    """The subject is asked in this way, and that is all. An upstream gradient is of other numbers, in the shape of the problem's output."""

    def judge(subject: Any, problem: Any) -> None:
        shape = problem.x.shape if isinstance(problem, LayerProblem) else (*problem.shape[:3], problem.value.shape[3])
        upstream = None if how.upstream is None else normal(*shape, seed=105).to(next(iter(problem.floats().values())))
        subject.attend(problem, replace(how, upstream=upstream))

    statement = "What it takes it answers; what it cannot compute it refuses with NotImplementedError."
    return Law("", statement, "f(x) is a tensor", "always", judge, lambda subject, level: (), levels=("call", "layer"))
