"""What an invariant is, and all of them by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from headwise.catalog import entries
from headwise.conformance.capabilities import CheckLevel, Level
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.exact.exact_trace import ExactTrace
from headwise.conformance.exact.move_verdict import MoveVerdict, Residual, judge_move
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.subject import Subject
from headwise.conformance.renamed_entries import current_name
from headwise.errors import ArgumentError, NotSupported


def _no_finding(subject: Subject, problem: AnyProblem) -> None:
    """An invariant of exact traces judges no implementation."""


def _no_problems(subject: Subject, level: CheckLevel) -> tuple[()]:
    """An invariant of exact traces has no problems of its own."""
    return ()


def _no_comparison(trace: ExactTrace) -> tuple[()]:
    """An invariant of implementations compares nothing on an exact trace."""
    return ()


@dataclass(frozen=True)
class Invariant:
    """A property of every correct attention. One file in `invariants/` each; its name is the name of the file.

    At the levels "call" and "layer" it judges an implementation on one problem: `judge(subject, problem)` computes what it needs from that problem alone (say,
    the same problem with a hidden key changed), so that a failing problem can be replaced by a smaller one; it returns None where the invariant holds or does
    not apply. At the level "exact" it compares matrices of an `ExactTrace`, enclosed in balls.

    Attributes:
        code: its number in the list of invariants, such as "I06" or "M3".
        statement: the property, in a sentence.
        formula: the same in symbols.
        levels: what it can judge: an exact trace, an attention of q, k and v, a layer.
        when: the condition under which it applies, in words.
        judge: the finding of one problem, or None.
        problems: the problems that a subject is judged on.
        needs: what a subject must support for the invariant to apply.
        repeats_calls: it makes the same call more than once and needs each one computed anew.
        compare: the comparisons that it comes down to on an exact trace.
        vacuous: why an exact trace has nothing to compare, or None.
    """

    code: str
    statement: str
    formula: str
    levels: tuple[Level, ...] = ("call",)
    when: str = "always"
    judge: Callable[[Subject, Any], Finding | None] = _no_finding
    problems: Callable[[Subject, CheckLevel], Iterable[Any]] = _no_problems
    needs: frozenset[str] = frozenset()
    repeats_calls: bool = False
    compare: Callable[[ExactTrace], Iterable[Residual]] = _no_comparison
    vacuous: Callable[[ExactTrace], str | None] = lambda trace: None

    def applies_to(self, subject: Subject) -> bool:
        """Whether the invariant says anything about this implementation."""
        return subject.level in self.levels and self.needs <= subject.supports

    def verdict(self, trace: ExactTrace) -> MoveVerdict:
        """The verdict on one exact trace."""
        return judge_move(trace, self.compare, self.vacuous)


@cache
def invariants(*levels: Level) -> Mapping[str, Invariant]:
    """The invariants of these levels by name, in the order of their codes; all of them when no level is given.

    Example:
        >>> [entry.code for entry in invariants("exact").values()]
        ['M1', 'M2', 'M3', 'M4', 'M5']
    """
    every: dict[str, Invariant] = dict(entries("headwise.conformance.invariants"))
    found = {name: entry for name, entry in every.items() if not levels or set(levels) & set(entry.levels)}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: ("MIN".index(item[1].code[0]), int(item[1].code[1:])))))


def invariant_named(name: str) -> Invariant:
    """One invariant of implementations; a deprecated name gives the one that has taken its place.

    Raises:
        ArgumentError: there is none of this name.
    """
    known = invariants("call", "layer")
    current = current_name(name, known)
    if current not in known:
        raise ArgumentError(f"invariant must be one of {', '.join(known)}, got {name!r}. Check the name.")
    return known[current]


def judge(name: str, invariant: Invariant, subject: Subject, problem: AnyProblem) -> Finding | None:
    """The finding of one problem. An exception that the subject raises is a finding too.

    Raises:
        NotSupported: the subject refuses the problem.
    """
    try:
        found = invariant.judge(subject, problem)
    except NotSupported:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a subject may raise is reported, and the rest goes on)
        found = Finding("wrong", problem, f"It raised {type(error).__name__}: {error}")
    return None if found is None else replace(found, invariant=name)


def first_finding(name: str, invariant: Invariant, subject: Subject, level: CheckLevel) -> Finding | None:
    """The finding of the first problem on which the invariant fails, or None."""
    for problem in invariant.problems(subject, level):
        try:
            found = judge(name, invariant, subject, problem)
        except NotSupported:
            continue
        if found is not None:
            return found
    return None
