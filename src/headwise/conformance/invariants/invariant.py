"""What must hold on the way from x to out, and what was found out about it.

An `Invariant` judges the algebra of a walk, whose every tensor lies open; a `Law` judges any attention that can be called.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["holds", "falls", "vacuous"]


@dataclass(frozen=True)
class Residual:
    """One comparison, and what was proved about it.

    Attributes:
        what: was compared.
        holds: it came out as the invariant demands.
        relation: how the largest difference stands to the bound.
        bound: rounded so that it is true.
    """

    what: str
    holds: bool
    relation: Literal["≤", "≥"]
    bound: float

    def __str__(self) -> str:
        return f"{self.what}: difference {self.relation} {self.bound:.3g}"


@dataclass(frozen=True)
class Verdict:
    """What became of an invariant.

    Attributes:
        state: "holds", "falls", or "vacuous" where there is nothing that could fall.
        residuals: every comparison that it rests on.
        why: it is vacuous.
    """

    state: State
    residuals: tuple[Residual, ...] = ()
    why: str = ""

    @property
    def telling(self) -> Residual | None:
        """The comparison that says most: of those that failed the clearest, else the one that came closest to failing.

        Proved differences ("≥") say more than proved equalities, where a verdict rests on both.
        """
        fallen = [residual for residual in self.residuals if not residual.holds]
        told = fallen or self.residuals
        apart = [residual for residual in told if residual.relation == "≥"]
        chosen = max if bool(apart) == bool(fallen) else min
        return chosen(apart or told, key=lambda residual: residual.bound, default=None)

    @property
    def bound(self) -> float | None:
        """Of the telling comparison; None where vacuous."""
        return None if self.telling is None else self.telling.bound

    def __str__(self) -> str:
        return f"{self.state}: {self.why or self.telling}"


@dataclass(frozen=True)
class Invariant:
    """One thing that every multi-head attention keeps. One file in `invariants/` each; its name is the name of the file.

    Attributes:
        code: "M1" to "M5".
        statement: what holds, in a sentence.
        formula: the same in symbols.
        check: the comparisons that it comes down to.
        vacuous: why there is nothing to compare, or None.
    """

    code: str
    statement: str
    formula: str
    check: Callable[[Any], Iterable[Residual]]
    vacuous: Callable[[Any], str | None] = lambda walk: None

    def judge(self, walk: Any) -> Verdict:
        """The verdict on one walk."""
        return judge(walk, self.check, self.vacuous)


def judge(walk: Any, check: Callable[[Any], Iterable[Residual]], vacuous: Callable[[Any], str | None]) -> Verdict:
    """Make the comparisons, all of them, and say what they come to."""
    why = vacuous(walk)
    if why is not None:
        return Verdict("vacuous", why=why)
    residuals = tuple(check(walk))
    return Verdict("holds" if all(residual.holds for residual in residuals) else "falls", residuals)


def count(what: str, got: int, right: int) -> Residual:
    """Two whole numbers are the same, or they are not: no arithmetic is involved."""
    return Residual(what, got == right, "≤" if got == right else "≥", float(abs(got - right)))
