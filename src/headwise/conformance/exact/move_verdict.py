"""What was proved about a move: every comparison, and the verdict that they add up to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

MoveState = Literal["holds", "falls", "vacuous"]
T = TypeVar("T")


@dataclass(frozen=True)
class Residual:
    """One comparison, and what was proved about it.

    Attributes:
        what: the two sides that were compared.
        holds: whether the comparison came out as the invariant demands.
        relation: how the largest difference relates to the bound.
        bound: a proved bound, rounded in the safe direction.
    """

    what: str
    holds: bool
    relation: Literal["≤", "≥"]
    bound: float

    def __str__(self) -> str:
        return f"{self.what}: difference {self.relation} {self.bound:.3g}"


@dataclass(frozen=True)
class MoveVerdict:
    """The verdict on one of the five moves.

    Attributes:
        state: "holds", "falls", or "vacuous" where there is nothing to compare.
        residuals: every comparison that the verdict rests on.
        why: the reason why it is vacuous; "" otherwise.
    """

    state: MoveState
    residuals: tuple[Residual, ...] = ()
    why: str = ""

    @property
    def passed(self) -> bool | None:
        """True where the move holds, False where it falls, None where it is vacuous."""
        return {"holds": True, "falls": False, "vacuous": None}[self.state]

    @property
    def decisive(self) -> Residual | None:
        """The comparison that carries the verdict: the clearest of those that failed, else the one that came closest to failing.

        Where a verdict rests on proved differences ("≥") and proved equalities, the differences count first.
        """
        failed = [residual for residual in self.residuals if not residual.holds]
        relevant = failed or self.residuals
        differences = [residual for residual in relevant if residual.relation == "≥"]
        chosen = max if bool(differences) == bool(failed) else min
        return chosen(differences or relevant, key=lambda residual: residual.bound, default=None)

    @property
    def bound(self) -> float | None:
        """The bound of the decisive comparison; None where vacuous."""
        return None if self.decisive is None else self.decisive.bound

    def __str__(self) -> str:
        return f"{self.state}: {self.why or self.decisive}"


def judge_move(trace: T, compare: Callable[[T], Iterable[Residual]], vacuous: Callable[[T], str | None]) -> MoveVerdict:
    """Make every comparison and return the verdict."""
    why = vacuous(trace)
    if why is not None:
        return MoveVerdict("vacuous", why=why)
    residuals = tuple(compare(trace))
    return MoveVerdict("holds" if all(residual.holds for residual in residuals) else "falls", residuals)


def compare_counts(what: str, got: int, expected: int) -> Residual:
    """Compare two whole numbers, without any arithmetic."""
    return Residual(what, got == expected, "≤" if got == expected else "≥", float(abs(got - expected)))
