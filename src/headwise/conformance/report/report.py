"""The result of a check: a verdict, and for every failure the smallest input, the actual and the expected result, and the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from headwise.axes import Tensor
from headwise.catalog import late
from headwise.conformance.adapters.convention_probe import ResolvedConvention
from headwise.conformance.comparison.finding import Finding, Severity
from headwise.conformance.problems.source_code import to_source
from headwise.deprecation import renamed_attributes


@renamed_attributes(attack="mutation", way="variant", lie="description")
@dataclass(frozen=True)
class Diagnosis:
    """A known fault that gives the same numbers.

    Attributes:
        mutation: name of the mutation.
        variant: name of its variant.
        description: the fault, in a sentence.
        threads: public issues about the same fault.
    """

    mutation: str
    variant: str
    description: str
    threads: tuple[str, ...]


@renamed_attributes(law="invariant", likely="diagnosis", seen_in="views")
@dataclass(frozen=True, eq=False)
class Failure:
    """One fault of a subject.

    Attributes:
        invariant: name of the invariant, or of the rule of a call, that fails.
        code: the invariant's code; "" for a rule of a call.
        statement: what should hold, in a sentence.
        finding: the smallest problem on which it fails, with the actual and the expected result.
        smallest: why there is no smaller one, in a sentence.
        diagnosis: the known fault that gives the same numbers, or None.
        also: other invariants that fail for the same reason.
        test: a test function that can be pasted, and fails until the fault is fixed.
        views: the views of the subject that have the fault, where there are several: a model, an opset, a layer.
    """

    invariant: str
    code: str
    statement: str
    finding: Finding
    smallest: str
    diagnosis: Diagnosis | None
    also: tuple[str, ...]
    test: str
    views: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """Wrong, fragile or convention."""
        return self.finding.severity

    def to_plain(self) -> dict[str, Any]:
        """The failure for JSON: strings, numbers and lists; NaN and infinities as strings.

        The keys law, how, right, looks_like and seen_in are the deprecated names of invariant, mode, expected, diagnosis and views.
        """
        found, known = self.finding, self.diagnosis
        threads = [] if known is None else list(known.threads)
        return {
            "invariant": self.invariant,
            "code": self.code,
            "severity": self.severity,
            "statement": self.statement,
            "why": found.why,
            "problem": repr(found.problem),
            "mode": to_source(found.mode),
            "got": to_lists(found.got),
            "expected": to_lists(found.expected),
            "where": list(found.where),
            "times_allowed": to_json_number(found.excess),
            "smallest": self.smallest,
            "diagnosis": None
            if known is None
            else {"mutation": known.mutation, "variant": known.variant, "description": known.description, "threads": threads},
            "also": list(self.also),
            "views": list(self.views),
            "test": self.test,
            "law": self.invariant,
            "how": to_source(found.mode),
            "right": to_lists(found.expected),
            "looks_like": None if known is None else {"attack": known.mutation, "lie": known.description, "threads": threads},
            "seen_in": list(self.views),
        }


@renamed_attributes(held="problems_passed")
@dataclass(frozen=True, eq=False)
class Report:
    """The result of `hw.check`.

    Attributes:
        subject: its name.
        level: how much was tried.
        versions: of Python and of the packages involved.
        conventions: what the subject's arguments and results mean, and how that is known.
        findings: everything that was noticed: failures, conventions that differ from the declared ones, and broken rules that are no faults.
        problems_passed: the invariants that pass, with the number of problems on which each was tried.
        not_tested: what was not tested, and why: arguments that its signature lacks, dtypes, invariants that need them.
        calls: the number of calls of the subject.
        seconds: the duration.
    """

    subject: str
    level: str
    versions: Mapping[str, str]
    conventions: tuple[ResolvedConvention, ...]
    findings: tuple[Failure, ...]
    problems_passed: Mapping[str, int]
    not_tested: Mapping[str, str]
    calls: int
    seconds: float

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The findings that are wrong or fragile, the wrong ones first."""
        ranks = {"wrong": 0, "fragile": 1}
        return tuple(sorted((f for f in self.findings if f.severity in ranks), key=lambda f: ranks[f.severity]))

    @property
    def passed(self) -> bool:
        """Nothing is wrong, nothing is fragile, and something was tried."""
        return not self.failures and bool(self.problems_passed)

    def to_plain(self) -> dict[str, Any]:
        """The report for JSON. The key held, and known and of in conventions, are the deprecated names of problems_passed, source and view."""
        return {
            "subject": self.subject,
            "level": self.level,
            "passed": self.passed,
            "versions": dict(self.versions),
            "conventions": [
                {"name": c.name, "value": c.value, "source": c.source, "meaning": c.meaning, "view": c.view, "known": c.source, "of": c.view}
                for c in self.conventions
            ],
            "failures": [failure.to_plain() for failure in self.failures],
            "noted": [finding.to_plain() for finding in self.findings if finding.severity == "convention"],
            "problems_passed": dict(self.problems_passed),
            "not_tested": dict(self.not_tested),
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
            "held": dict(self.problems_passed),
        }

    def to_json(self) -> str:
        """The report as JSON."""
        return late("headwise.conformance.report.report_text:to_json")(self)

    def to_junit(self) -> str:
        """The report as JUnit XML, with one test case per invariant."""
        return late("headwise.conformance.report.report_text:to_junit")(self)

    def to_html(self) -> str:
        """The report as one self-contained HTML page."""
        return late("headwise.conformance.report.report_html:to_html")(self)

    def __str__(self) -> str:
        return late("headwise.conformance.report.report_text:to_text")(self)

    def __repr__(self) -> str:
        what = "passed" if self.passed else f"{len(self.failures)} failures"
        return f"<Report of {self.subject}: {what}, {sum(self.problems_passed.values())} problems passed>"


def to_lists(tensor: Tensor | None) -> Any:
    """A tensor as nested lists; NaN and infinities as strings."""
    return None if tensor is None else to_json_number(tensor.detach().tolist())


def to_json_number(value: object) -> Any:
    """A number, or nested lists of numbers, as JSON can hold them: NaN and infinities as strings."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json_number(one) for one in value]
    return value if not isinstance(value, float) or isfinite(value) else str(value)
