"""One subject being checked: which invariants failed, on what, and which of two answers is at fault where they differ."""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from headwise.conformance.adapters.function_adapter import ResolvedSubject
from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.invariants.invariant import Invariant
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.sandbox.watched_subject import CALL_RULES, WatchedSubject
from headwise.errors import NotSupported, SubjectFailure


@dataclass(frozen=True, eq=False)
class Violation:
    """An invariant, or a rule of a call, that failed on a problem.

    Attributes:
        invariant: its name.
        judged: the problem that it was checked on; the finding may be about one derived from it.
        finding: what was found.
    """

    invariant: str
    judged: AnyProblem
    finding: Finding

    @property
    def kind(self) -> tuple[Hashable, ...]:
        """What violations of the same kind have in common."""
        mode = self.finding.mode
        return (self.invariant, self.finding.severity, frozenset(self.judged.options), mode.weights, mode.training, mode.path, self.nan, self.reason)

    @property
    def reason(self) -> str:
        """The reason, without the numbers in it."""
        return re.sub(r"\d+(\.\d+)?", "#", self.finding.why)

    @property
    def nan(self) -> tuple[bool, bool] | None:
        """Whether the result is NaN, and whether NaN is expected, at the worst number; None where nothing is compared."""
        return nan_in_got_and_expected(self.finding)


def nan_in_got_and_expected(finding: Finding) -> tuple[bool, bool] | None:
    """Whether the result is NaN, and whether NaN is expected, at the worst number; None where nothing is compared."""
    got, expected, where = finding.got, finding.expected, finding.where
    if got is None or expected is None or got.shape != expected.shape:
        return None
    return bool(got[where].isnan().any()), bool(expected[where].isnan().any())


@dataclass(eq=False)
class Trial:
    """One subject being checked, and what was found so far.

    Attributes:
        found: the subject with its conventions.
        watched: the same subject under watch.
        smallest: the simplest violation of each kind.
        tried: the number of problems on which each invariant was tried.
        violations: every violation, by invariant.
    """

    found: ResolvedSubject
    watched: WatchedSubject
    smallest: dict[tuple[Hashable, ...], Violation] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    violations: dict[str, list[Violation]] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Whether something was found that is wrong under every convention, not fragile only."""
        return any(violation.finding.severity == "wrong" for found in self.violations.values() for violation in found)

    @property
    def view(self) -> str:
        """Which of several subjects that represent one: a module as a layer, a model, an opset."""
        return f"{self.watched.name}, as a layer" if self.watched.level == "layer" else self.watched.name


def violation_of(watched: WatchedSubject, name: str, invariant: Invariant, problem: AnyProblem) -> Violation | None:
    """The invariant's finding on a problem, or the rule of a call that the subject broke; None where it passes."""
    try:
        finding = invariant.judge(watched, problem)
    except SubjectFailure as failure:
        severity, _ = CALL_RULES[failure.rule]
        mode = failure.mode if isinstance(failure.mode, CallMode) else PLAIN
        called_on = failure.problem if isinstance(failure.problem, Problem | LayerProblem) else problem
        return Violation(failure.rule, called_on, Finding(severity, called_on, str(failure), mode=mode, invariant=failure.rule))
    return None if finding is None else Violation(name, problem, replace(_at_fault(watched, problem, finding), invariant=name))


def _at_fault(watched: WatchedSubject, judged: AnyProblem, finding: Finding) -> Finding:
    """The finding about the answer that is wrong: where two answers differ and the one in the finding is correct, it is the other one."""
    other = finding.problem
    if finding.got is None or type(other) is not type(judged) or (other is judged and finding.mode == PLAIN) or finding.mode.upstream is not None:
        return finding
    expected = other.expected(watched.conventions).output
    if finding.got.shape != expected.shape or mismatch(other, finding.got, expected, 2 * tolerance(watched, other).output, "") is not None:
        return finding
    try:
        output = watched.attend(judged).output
    except (NotSupported, SubjectFailure):
        return finding
    expected, allowed = judged.expected(watched.conventions).output, tolerance(watched, judged).output
    return mismatch(judged, output, expected, allowed, finding.why, severity=finding.severity) or finding
