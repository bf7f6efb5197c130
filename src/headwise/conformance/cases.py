"""`hw.cases`: the problems of the suite one by one, for a test runner."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from headwise.conformance.answer import PLAIN, CallMode
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.invariants.definition import DEFINITION
from headwise.conformance.invariants.invariant import Invariant, invariant_named, invariants
from headwise.conformance.invariants.repeat_call import repeat_call
from headwise.conformance.mutations.mutable_attention import MutableAttention
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_filter import fit
from headwise.conformance.problems.subject import Subject
from headwise.conformance.renamed_entries import current_name
from headwise.conformance.sandbox.remote_subject import FATAL, isolated
from headwise.conformance.sandbox.watched_subject import CALL_RULES, WatchedSubject
from headwise.deprecation import renamed_attributes, warn
from headwise.errors import NotSupported, SubjectFailure

LIMIT = 30.0  # seconds that a call may take where it is known to hang or crash


@renamed_attributes(law="invariant", how="mode")
@dataclass(frozen=True, eq=False)
class Case:
    """One invariant on one problem.

    Attributes:
        invariant: its name; "definition" for the formula itself, or the name of a rule of a call.
        problem: the input.
        number: position among the problems of the invariant.
        mode: how the subject is called, where the case is about a rule of a call.
    """

    invariant: str
    problem: AnyProblem
    number: int = 0
    mode: CallMode = PLAIN

    @property
    def __name__(self) -> str:
        """The name that pytest shows."""
        return f"{self.invariant}-{self.number}"

    def check(self, subject: object, **arguments: object) -> None:
        """Check a subject, given in any way that `hw.check` takes, under the conventions that it turns out to have.

        Options that it does not support are left out.

        Args:
            arguments: the arguments with which a class or a peer is made.

        Raises:
            AssertionError: the invariant fails; the message states the actual and the expected result.

        Example:
            >>> import headwise as hw
            >>> hw.cases()[0].check(hw.attend)
        """
        name, entry = self._entry()
        limit = LIMIT if name in FATAL and isinstance(subject, str) else None
        options: Mapping[str, object] = {"arguments": arguments, "declared": {}, "dtype": None, "device": None}
        with torch.random.fork_rng(devices=[]), isolated(subject, limit, options) as resolved:
            for one in resolved:
                self._check(one.subject, name, entry)

    def holds(self, subject: object, **arguments: object) -> None:
        """Deprecated name of `check`."""
        warn("Case.holds", "Case.check")
        self.check(subject, **arguments)

    def _check(self, subject: Subject, name: str, entry: Invariant) -> None:
        watched = WatchedSubject(subject)
        if not entry.applies_to(watched) or (watched.level == "layer") != isinstance(self.problem, LayerProblem):
            return
        problem = fit(self.problem, watched.supports)
        if problem is None or (problem is not self.problem and name in CALL_RULES):
            return
        cut = getattr(subject, "cut", None)
        try:
            finding = entry.judge(watched, problem if cut is None or name in CALL_RULES else cut(problem))
        except NotSupported:
            return
        except SubjectFailure as failure:
            raise AssertionError(str(failure)) from None
        finding = finding or watched.noted.get(name)
        if finding is not None:
            tensors = f" Got {_at(finding.got, finding.where)}, expected {_at(finding.expected, finding.where)} at {finding.where}."
            raise AssertionError(f"{entry.statement} {finding.why}{'' if finding.got is None else tensors}")

    def _entry(self) -> tuple[str, Invariant]:
        name = current_name(self.invariant, CALL_RULES)
        if name in CALL_RULES:
            return name, repeat_call(self.mode)
        if name == "definition":
            return name, DEFINITION
        entry = invariant_named(name)
        return next(known for known, one in invariants("call", "layer").items() if one is entry), entry


def cases(level: CheckLevel = "quick") -> list[Case]:
    """Every invariant on every problem of query, key and value: `@pytest.mark.parametrize("case", hw.cases())`.

    Args:
        level: "quick" or "full".

    Example:
        >>> cases()[0].__name__
        'output_shape-0'
    """
    supports_all = MutableAttention()
    found = []
    for name, entry in invariants("call").items():
        if entry.applies_to(supports_all):
            problems = [problem for problem in entry.problems(supports_all, level) if isinstance(problem, Problem)]
            found += [Case(name, problem, number) for number, problem in enumerate(problems)]
    return found


def _at(tensor: torch.Tensor | None, where: tuple[int, ...]) -> str:
    """The number at an index, or the whole tensor."""
    return "nothing" if tensor is None else f"{float(tensor[where]):.6g}" if where and tensor.dim() == len(where) else str(tensor.tolist())
