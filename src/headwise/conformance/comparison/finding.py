"""A finding: one problem on which an invariant fails."""

from dataclasses import dataclass
from typing import Literal

from headwise.axes import Tensor
from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.deprecation import renamed_attributes

Severity = Literal["wrong", "fragile", "convention"]


@renamed_attributes(right="expected", how="mode")
@dataclass(frozen=True, eq=False)
class Finding:
    """One problem on which one invariant fails.

    Attributes:
        severity: "wrong" under every convention; "fragile" at extreme values or in low precision only; "convention" for a convention that differs from the
            declared one.
        problem: the input. Its repr is Python that makes it again.
        why: what was observed, in one sentence.
        got, expected: the two tensors that should agree, where there are two.
        where: index of the worst number.
        excess: the error in multiples of the tolerance; inf where the failure is not one of rounding.
        mode: how the subject was called.
        invariant: name of the invariant, filled in by whoever runs it.
    """

    severity: Severity
    problem: AnyProblem
    why: str
    got: Tensor | None = None
    expected: Tensor | None = None
    where: tuple[int, ...] = ()
    excess: float = float("inf")
    mode: CallMode = PLAIN
    invariant: str = ""
