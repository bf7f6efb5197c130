"""One subject under judgement: which laws fell, on what, and who is to blame where two answers differ."""

import re
from dataclasses import dataclass, field, replace

from headwise.conformance.adapters.function import Found
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law
from headwise.conformance.oracles.tolerance import differ, room
from headwise.conformance.problems.answer import PLAINLY
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.report.finding import Finding
from headwise.conformance.sandbox.watched_subject import MANNERS, Misbehaved, Watched

AnyProblem = Problem | LayerProblem


@dataclass(frozen=True, eq=False)
class Fall:
    """A law fell on a problem.

    Attributes:
        judged: what the law was asked about; the finding may show what it made of it.
    """

    law: str
    judged: AnyProblem
    finding: Finding

    @property
    def kind(self) -> tuple:
        """What it has in common with others of its kind."""
        how = self.finding.how
        return (self.law, self.finding.severity, frozenset(self.judged.options), how.weights, how.training, how.path, self.nan, self.reason)

    @property
    def reason(self) -> str:
        """Why, whatever the numbers in it."""
        return re.sub(r"\d+(\.\d+)?", "#", self.finding.why)

    @property
    def nan(self) -> tuple[bool, bool] | None:
        """Whether NaN came, and whether NaN is right, at the worst place; None where there are no two sides."""
        return nan_sides(self.finding)


def nan_sides(finding: Finding) -> tuple[bool, bool] | None:
    """Whether NaN came, and whether NaN is right, at the worst place; None where there are no two sides."""
    got, right, where = finding.got, finding.right, finding.where
    if got is None or right is None or got.shape != right.shape:
        return None
    return bool(got[where].isnan().any()), bool(right[where].isnan().any())


@dataclass(eq=False)
class Trial:
    """One subject under judgement, and what was noticed so far."""

    found: Found
    watched: Watched
    falls: dict[tuple, Fall] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    fallen: dict[str, list[Fall]] = field(default_factory=dict)

    @property
    def view(self) -> str:
        """Which of several subjects that stand for one: a module as a layer, a model, an opset."""
        return f"{self.watched.name}, as a layer" if self.watched.level == "layer" else self.watched.name


def fall_of(watched: Watched, name: str, law: Law, problem: AnyProblem) -> Fall | None:
    """The law's finding; or how the subject misbehaved, which is a finding of its own."""
    try:
        finding = law.judge(watched, problem)
    except Misbehaved as odd:
        severity, _ = MANNERS[odd.manner]
        asked = problem if odd.problem is None else odd.problem
        return Fall(odd.manner, asked, Finding(severity, asked, str(odd), how=odd.how, invariant=odd.manner))
    return None if finding is None else Fall(name, problem, replace(_blamed(watched, problem, finding), invariant=name))


def _blamed(watched: Watched, judged: AnyProblem, finding: Finding) -> Finding:
    """Where two answers differ and the one that was looked at is right, the other is to blame: then the finding is about that one."""
    other = finding.problem
    if finding.got is None or type(other) is not type(judged) or (other is judged and finding.how == PLAINLY) or finding.how.upstream is not None:
        return finding
    right = other.right(watched.conventions).output
    if finding.got.shape != right.shape or differ(other, finding.got, right, 2 * room(watched, other).output, "") is not None:
        return finding
    try:
        said = watched.attend(judged).output
    except (Refused, Misbehaved):
        return finding
    return differ(judged, said, judged.right(watched.conventions).output, room(watched, judged).output, finding.why, severity=finding.severity) or finding
