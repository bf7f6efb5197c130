"""The suite's problems one by one, for a test runner of one's own."""

from dataclasses import dataclass
from typing import Any

import torch

from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.invariants.repeat_call import asking
from headwise.conformance.invariants.subject_laws import law, laws
from headwise.conformance.mutations.mutable_attention import CallWay
from headwise.conformance.oracles.formula import DEFINITION
from headwise.conformance.problems.answer import PLAINLY, How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem import Problem
from headwise.conformance.problems.problem_filter import fitted
from headwise.conformance.sandbox.remote_subject import distant
from headwise.conformance.sandbox.watched_subject import MANNERS, Misbehaved, Watched

LIMIT = 30.0  # seconds that a call may take where it is known to hang or die


@dataclass(frozen=True, eq=False)
class Case:
    """One law on one problem.

    Attributes:
        law: its name; "definition" for the formula itself.
        problem: the input.
        number: among the problems of the law.
        how: the subject is asked, where the law is about its manners.
    """

    law: str
    problem: Problem | LayerProblem
    number: int = 0
    how: How = PLAINLY

    @property
    def __name__(self) -> str:
        """What pytest shows."""
        return f"{self.law}-{self.number}"

    def holds(self, subject: Any, **arguments: Any) -> None:
        """Judge a subject, given in any way that `hw.check` takes, under the conventions that it turns out to have. Options that it does not know
        are left out.

        Raises:
            AssertionError: the law falls; the message says what came and what is right.

        Example:
            >>> import headwise as hw
            >>> hw.cases()[0].holds(hw.attend)
        """
        entry, limit = self._law(), LIMIT if self.law in ("hangs", "dies") and isinstance(subject, str) else None
        near = {"arguments": arguments, "declared": {}, "dtype": None, "device": None}
        with torch.random.fork_rng(devices=[]), distant(subject, limit, near) as founds:
            for found in founds:
                self._judge(found.subject, entry)

    def _judge(self, subject: Any, entry: Law) -> None:
        watched = Watched(subject)
        if watched.level not in entry.levels or not entry.needs <= watched.honours or (watched.level == "layer") != isinstance(self.problem, LayerProblem):
            return
        problem = fitted(self.problem, watched.honours)
        if problem is None or (problem is not self.problem and self.law in MANNERS):
            return
        try:
            finding = entry.judge(watched, problem)
        except Refused:
            return
        except Misbehaved as odd:
            raise AssertionError(str(odd)) from None
        finding = finding or watched.noted.get(self.law)
        if finding is not None:
            sides = f" got {_at(finding.got, finding.where)}, right {_at(finding.right, finding.where)} at {finding.where}"
            raise AssertionError(f"{entry.statement} {finding.why}{'' if finding.got is None else sides}")

    def _law(self) -> Law:
        if self.law in MANNERS:
            return asking(self.how)
        return DEFINITION if self.law == "definition" else law(self.law)


def cases(level: Level = "quick") -> list[Case]:
    """Every law on every problem that an attention of q, k and v can be asked: `@pytest.mark.parametrize("case", hw.cases())`.

    Args:
        level: "quick" or "full".
    """
    knows_all = CallWay()
    found = []
    for name, entry in laws().items():
        if "call" in entry.levels and entry.needs <= knows_all.honours:
            problems = [problem for problem in entry.problems(knows_all, level) if isinstance(problem, Problem)]
            found += [Case(name, problem, number) for number, problem in enumerate(problems)]
    return found


def _at(tensor: torch.Tensor | None, where: tuple[int, ...]) -> str:
    return "nothing" if tensor is None else f"{float(tensor[where]):.6g}" if where and tensor.dim() == len(where) else str(tensor.tolist())
