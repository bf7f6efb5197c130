"""`hw.attack`: the kill matrix, which shows which invariants detect each mutation.

The red team mutates headwise's own implementation; the blue team checks the invariants.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import torch

from headwise.conformance.adapters.headwise_attention import HeadwiseAttend, HeadwiseLayer
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.five_moves import five_moves
from headwise.conformance.invariants.invariant import first_finding, invariants
from headwise.conformance.mutations.mutable_attention import MutableAttention
from headwise.conformance.mutations.mutable_layer import MutableLayer
from headwise.conformance.mutations.mutation import Mutation, mutations
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.subject import Subject
from headwise.conformance.renamed_entries import current_name
from headwise.deprecation import renamed_attributes, renamed_progress
from headwise.errors import ArgumentError
from headwise.progress import ProgressCallback, no_progress

UNMUTATED = "headwise"
"""The rows of headwise's own implementation, without any mutation."""


@renamed_attributes(
    attack="mutation",
    told="variant",
    lie="description",
    named="required",
    asked="applied",
    caught="detected",
    alarms="false_alarms",
    as_it_should_be="as_expected",
)
@dataclass(frozen=True)
class Row:
    """One variant of one mutation, and the invariants that detect it.

    Attributes:
        mutation: its name, or "headwise" for headwise's own implementation.
        variant: name of the variant, where there are several.
        code: number of the fault in the list of faults.
        description: the fault, in a sentence.
        required: the invariants that must detect it; none for a control.
        applied: the invariants that apply to it.
        detected: the invariants that failed, with the first finding of each.
    """

    mutation: str
    variant: str
    code: str
    description: str
    required: tuple[str, ...]
    applied: tuple[str, ...]
    detected: Mapping[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> tuple[str, ...]:
        """The invariants that should have detected it and did not."""
        return tuple(name for name in self.required if name not in self.detected)

    @property
    def false_alarms(self) -> tuple[str, ...]:
        """The invariants that failed although nothing is wrong."""
        return () if self.required else tuple(self.detected)

    @property
    def as_expected(self) -> bool:
        """Whether every required invariant detects it, and none fails on a control."""
        return not self.missed and not self.false_alarms

    def as_dict(self) -> dict[str, Any]:
        """The row as lists and strings, for JSON. The keys attack, told, lie, named, asked, caught and alarms are deprecated."""
        found: dict[str, Any] = {**vars(self), "detected": dict(self.detected), "missed": self.missed, "false_alarms": self.false_alarms}
        old = {"attack": "mutation", "told": "variant", "lie": "description", "named": "required", "asked": "applied", "caught": "detected"}
        return found | {name: found[new] for name, new in {**old, "alarms": "false_alarms"}.items()}


@renamed_attributes(wrong="unexpected")
@dataclass(frozen=True)
class KillMatrix:
    """Mutations × invariants.

    Attributes:
        codes: the codes of the invariants, by name, in their order.
        rows: mutations in the order of their names, then controls, then headwise's own implementation.
    """

    codes: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """Whether every mutation is detected by the invariants that it requires, without false alarms."""
        return all(row.as_expected for row in self.rows)

    @property
    def unexpected(self) -> tuple[Row, ...]:
        """The rows that are not as expected."""
        return tuple(row for row in self.rows if not row.as_expected)

    def mark(self, row: Row, name: str) -> str:
        """● detected, as required; ○ detected too; ! missed, or a false alarm; · passed; blank: does not apply."""
        if name in row.detected:
            return "●" if name in row.required else "○" if row.required else "!"
        if name in row.required:
            return "!"
        return "·" if name in row.applied else " "

    def as_dict(self) -> dict[str, Any]:
        """Everything as lists and strings, for JSON."""
        return {"complete": self.complete, "invariants": dict(self.codes), "rows": [row.as_dict() for row in self.rows]}


@renamed_progress("told")
def attack(names: Iterable[str] | None = None, processes: int = 1, progress: ProgressCallback = no_progress) -> KillMatrix:
    """Check every invariant on every mutation of headwise's own implementation.

    A mutation is detected by invariants, and by a reference that shares no code with what is mutated; never by comparison with the unmutated code. The
    controls, which change nothing that matters, and the unmutated implementation must fail no invariant.

    Args:
        names: names of mutations; all of them and headwise's own implementation when absent.
        processes: more than 1 spreads the work; the caller must then be guarded by `if __name__ == "__main__"`.
        progress: called with the name of each mutation when it is done.

    Raises:
        ArgumentError: there is no mutation of this name.

    Example:
        >>> matrix = attack(["nan_replaced_by_zero"])
        >>> matrix.complete, matrix.rows[0].detected
        (True, {'nan_propagation': 'A NaN in a query was swallowed: its row should be NaN.'})
    """
    known = mutations()
    wanted = [*known, UNMUTATED] if names is None else [current_name(name, {*known, UNMUTATED}) for name in names]
    for name in wanted:
        if name not in known and name != UNMUTATED:
            raise ArgumentError(f"attack must be one of {', '.join(known)}, got {name!r}. Choose one of them.")
    rows = [row for found in _spread(wanted, processes, progress) for row in found]
    rows.sort(key=lambda row: (row.mutation == UNMUTATED, not row.required, row.mutation))
    return KillMatrix({name: entry.code for name, entry in invariants().items()}, tuple(rows))


_full: list[KillMatrix] = []


def full_matrix(progress: ProgressCallback = no_progress) -> KillMatrix:
    """The whole matrix on two processors, computed once: a command and a page may both ask for it.

    Args:
        progress: as for `attack`; not called where the matrix is known already.
    """
    if not _full:
        _full.append(attack(processes=min(2, cores()), progress=progress))
    return _full[0]


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _spread(wanted: list[str], processes: int, progress: ProgressCallback) -> Iterator[list[Row]]:
    with ExitStack() as stack:
        run: Callable[..., Iterable[list[Row]]] = map
        if processes > 1 and len(wanted) > 1:
            pool = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)))
            run = pool.map
        for done, (name, rows) in enumerate(zip(wanted, run(_rows, wanted), strict=True), 1):
            progress(name, done, len(wanted))
            yield rows


def _rows(name: str) -> list[Row]:
    """Every variant of one mutation."""
    if name == UNMUTATED:
        subjects = (HeadwiseAttend(), *(HeadwiseAttend(kernel) for kernel in HeadwiseAttend().paths), HeadwiseLayer(), MutableAttention(), MutableLayer())
        return [_row(UNMUTATED, subject.name, "", "headwise's own implementation, unmutated.", (), subject) for subject in subjects]
    entry = mutations()[name]
    if entry.level == "exact":
        return [_exact_row(name, entry)]
    several = len(entry.variants) > 1
    return [_row(name, variant if several else "", entry.code, entry.description, entry.detected_by, subject) for variant, subject in entry.subjects().items()]


class _Memoized:
    """A subject whose answers are computed once, since invariants share problems. Answers with gradients, and those in training, are computed anew."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject
        self.answers: dict[tuple[AnyProblem, bool, bool, str], Answer] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.subject, name)

    def attend(self, problem: AnyProblem, mode: CallMode = PLAIN) -> Answer:
        if mode.upstream is not None or mode.training:
            return self.subject.attend(problem, mode)
        key = (problem, mode.weights, mode.grad, mode.path)
        if key not in self.answers:
            self.answers[key] = self.subject.attend(problem, mode)
        return self.answers[key]


def _row(mutation: str, variant: str, code: str, description: str, required: tuple[str, ...], subject: Subject) -> Row:
    applied = {name: entry for name, entry in invariants("call", "layer").items() if entry.applies_to(subject)}
    memoized: Any = _Memoized(deepcopy(subject))
    found = {name: first_finding(name, entry, deepcopy(subject) if entry.repeats_calls else memoized, "quick") for name, entry in applied.items()}
    detected = {name: finding.why for name, finding in found.items() if finding is not None}
    return Row(mutation, variant, code, description, required, tuple(applied), detected)


def _exact_row(name: str, entry: Mutation) -> Row:
    """The five moves on the 3 × 4 example with two heads, proved by ball arithmetic."""
    verdicts, names = five_moves(2, attack=name).verdicts, {entry.code: move for move, entry in invariants("exact").items()}
    detected = {names[code]: str(verdict) for code, verdict in verdicts.items() if verdict.state == "falls"}
    return Row(name, "", "", entry.description, entry.detected_by, tuple(invariants("exact")), detected)
