"""What was found wrong: the gift to whoever wrote the attention."""

from dataclasses import dataclass
from typing import Literal

from headwise.axes import Tensor
from headwise.conformance.problems.answer import PLAINLY, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem

Severity = Literal["wrong", "fragile", "convention"]


@dataclass(frozen=True, eq=False)
class Finding:
    """One problem on which one invariant does not hold.

    Attributes:
        severity: "wrong" under every convention; "fragile" at extreme values or in low precision only; "convention": a choice
            of words that differs from what was declared.
        problem: the input. Its repr is Python that makes it again.
        how: how the subject was called.
        got, right: the two sides that should agree, as far as there are two; the whole tensors.
        where: index of the worst number.
        excess: how many times the allowed error it is off; inf for what is no matter of rounding.
        why: what was seen, in one sentence.
        invariant: file name of the invariant; whoever runs it puts it there.
    """

    severity: Severity
    problem: Problem | LayerProblem
    why: str
    got: Tensor | None = None
    right: Tensor | None = None
    where: tuple[int, ...] = ()
    excess: float = float("inf")
    how: How = PLAINLY
    invariant: str = ""
