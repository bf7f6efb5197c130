"""Trying laws on a subject, and noting what falls."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from headwise.catalog import entries
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding


def laws() -> Mapping[str, Law]:
    """Every law by file name, in the order of their codes."""
    found = {name: entry for name, entry in entries("headwise.conformance.invariants").items() if isinstance(entry, Law)}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (item[1].code[0], int(item[1].code[1:])))))


def speaks(law: Law, subject: Any) -> bool:
    """Whether the law says anything about such a subject."""
    return subject.level in law.levels and law.needs <= subject.honours


def judged(name: str, law: Law, subject: Any, problem: Problem | LayerProblem) -> Finding | None:
    """The law's verdict on one problem. An error that the subject raises is a finding; a refusal is not.

    Raises:
        Refused: the subject says that it cannot compute this.
    """
    try:
        found = law.judge(subject, problem)
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a subject may raise is reported, and the rest goes on)
        found = Finding("wrong", problem, f"It raised {type(error).__name__}: {error}")
    return None if found is None else replace(found, invariant=name)


def first_finding(name: str, law: Law, subject: Any, level: Level) -> Finding | None:
    """The first problem on which a law falls, or None."""
    for problem in law.problems(subject, level):
        try:
            found = judged(name, law, subject, problem)
        except Refused:
            continue
        if found is not None:
            return found
    return None
