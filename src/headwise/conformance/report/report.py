"""What a check found: a verdict, and for every failure the smallest input, what was got, what is right and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from headwise.axes import Tensor
from headwise.catalog import late
from headwise.conformance.adapters.convention_probe import Stated
from headwise.conformance.minimise.diagnosis import Likely
from headwise.conformance.problems.source_code import written
from headwise.conformance.report.finding import Finding, Severity


@dataclass(frozen=True, eq=False)
class Failure:
    """One fault of a subject.

    Attributes:
        law: name of the invariant that falls.
        code: its number in the catalogue; "" where it is about manners.
        statement: what should hold.
        finding: the smallest problem on which it does not, what was got and what is right.
        smallest: why there is none smaller, in a sentence.
        likely: the fault by name, where an attack gives the same numbers.
        also: other laws that fall with it.
        test: a test function to be pasted, which fails until the fault is mended.
        seen_in: the views of the subject that have it, where there are several: a model, an opset, a layer.
    """

    law: str
    code: str
    statement: str
    finding: Finding
    smallest: str
    likely: Likely | None
    also: tuple[str, ...]
    test: str
    seen_in: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """Wrong, fragile or convention."""
        return self.finding.severity

    def to_plain(self) -> dict[str, Any]:
        """For JSON: strings, numbers, lists; tensors as nested lists, NaN and infinities as strings."""
        found = self.finding
        return {
            "law": self.law,
            "code": self.code,
            "severity": self.severity,
            "statement": self.statement,
            "why": found.why,
            "problem": repr(found.problem),
            "how": written(found.how),
            "got": listed(found.got),
            "right": listed(found.right),
            "where": list(found.where),
            "times_allowed": number(found.excess),
            "smallest": self.smallest,
            "looks_like": None if self.likely is None else {"attack": self.likely.attack, "lie": self.likely.lie, "threads": list(self.likely.threads)},
            "also": list(self.also),
            "seen_in": list(self.seen_in),
            "test": self.test,
        }


@dataclass(frozen=True, eq=False)
class Report:
    """What `hw.check` gives back.

    Attributes:
        subject: its name.
        level: how much was tried.
        versions: of Python and of the packages that matter.
        conventions: what the subject means by its words, and how that is known.
        findings: all that was noticed; conventions that differ from those declared, and mere manners, among them.
        held: laws that hold, with the number of problems that each was tried on.
        not_tested: what was not tried, and why: arguments that its signature lacks, dtypes, laws that need them.
        calls: of the subject.
        seconds: that it took.
    """

    subject: str
    level: str
    versions: Mapping[str, str]
    conventions: tuple[Stated, ...]
    findings: tuple[Failure, ...]
    held: Mapping[str, int]
    not_tested: Mapping[str, str]
    calls: int
    seconds: float

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Those that are wrong or fragile, the wrong ones first."""
        ranks = {"wrong": 0, "fragile": 1}
        return tuple(sorted((f for f in self.findings if f.severity in ranks), key=lambda f: ranks[f.severity]))

    @property
    def passed(self) -> bool:
        """Nothing is wrong and nothing is fragile, and something was tried."""
        return not self.failures and bool(self.held)

    def to_plain(self) -> dict[str, Any]:
        """The report as strings, numbers, lists and dicts."""
        return {
            "subject": self.subject,
            "level": self.level,
            "passed": self.passed,
            "versions": dict(self.versions),
            "conventions": [{"name": s.name, "value": s.value, "known": s.known, "meaning": s.meaning, "of": s.of} for s in self.conventions],
            "failures": [failure.to_plain() for failure in self.failures],
            "noted": [finding.to_plain() for finding in self.findings if finding.severity == "convention"],
            "held": dict(self.held),
            "not_tested": dict(self.not_tested),
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
        }

    def to_json(self) -> str:
        """The report as JSON."""
        return late("headwise.conformance.report.report_text:to_json")(self)

    def to_junit(self) -> str:
        """The report as JUnit XML: a test case a law."""
        return late("headwise.conformance.report.report_text:to_junit")(self)

    def to_html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return late("headwise.conformance.report.report_html:to_html")(self)

    def __str__(self) -> str:
        return late("headwise.conformance.report.report_text:to_text")(self)

    def __repr__(self) -> str:
        what = "passed" if self.passed else f"{len(self.failures)} failures"
        return f"<Report of {self.subject}: {what}, {sum(self.held.values())} problems held>"


def listed(tensor: Tensor | None) -> Any:
    """Nested lists; NaN and infinities as strings."""
    return None if tensor is None else number(tensor.detach().tolist())


def number(value: Any) -> Any:
    """A number as JSON has it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [number(one) for one in value]
    return value if not isinstance(value, float) or isfinite(value) else str(value)
