"""The kill matrix: every attack against every invariant. Red tells its lies, blue looks; who catches what is written down."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import torch

from headwise.catalog import entries
from headwise.conformance.adapters.headwise_attention import OurAttend, OurLayer
from headwise.conformance.exact.five_moves import five_moves, invariants
from headwise.conformance.invariants.laws import first_finding, laws, speaks
from headwise.conformance.mutations.attack import Attack
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.mutations.mutable_attention import CallWay
from headwise.conformance.mutations.mutable_layer import LayerWay
from headwise.conformance.problems.answer import PLAINLY, Answer, How
from headwise.errors import ArgumentError

HONEST = "honest"


@dataclass(frozen=True)
class Row:
    """One way of telling one lie, and who caught it.

    Attributes:
        attack: its file name, or "honest" for our own engine.
        told: the way of telling it, where there are several.
        code: in the catalogue of faults.
        lie: what is claimed.
        named: who must catch it: nobody, where it is no fault.
        asked: the invariants that say anything about it.
        caught: those that fell, and what each saw first.
    """

    attack: str
    told: str
    code: str
    lie: str
    named: tuple[str, ...]
    asked: tuple[str, ...]
    caught: Mapping[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> tuple[str, ...]:
        """Who should have caught it and did not."""
        return tuple(name for name in self.named if name not in self.caught)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Who cried at what is no fault."""
        return () if self.named else tuple(self.caught)

    @property
    def as_it_should_be(self) -> bool:
        return not self.missed and not self.alarms


@dataclass(frozen=True)
class KillMatrix:
    """Attacks × invariants.

    Attributes:
        codes: of the invariants, by file name, in their order.
        rows: attacks in the order of their names, then controls, then our own engine.
    """

    codes: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """Every attack is caught by whom it names; controls and our own engine are not accused."""
        return all(row.as_it_should_be for row in self.rows)

    @property
    def wrong(self) -> tuple[Row, ...]:
        """The rows that are not as they should be."""
        return tuple(row for row in self.rows if not row.as_it_should_be)

    def mark(self, row: Row, name: str) -> str:
        """● caught, and named; ○ caught besides; ! missed; · held; blank: has nothing to say."""
        if name in row.caught:
            return "●" if name in row.named else "○" if row.named else "!"
        if name in row.named:
            return "!"
        return "·" if name in row.asked else " "

    def as_dict(self) -> dict[str, Any]:
        """All of it in lists and strings, for JSON."""
        rows = [{**vars(row), "caught": dict(row.caught), "missed": row.missed, "alarms": row.alarms} for row in self.rows]
        return {"complete": self.complete, "invariants": dict(self.codes), "rows": rows}


def attack(names: Iterable[str] | None = None, processes: int = 1, told: Callable[[str], object] = lambda name: None) -> KillMatrix:
    """Tell every lie to every invariant of the suite, on our own implementation.

    Kills come from invariants and from an oracle that shares no code with what is attacked; never from comparing with the
    same code. What is no fault (the controls) and our own engine must be accused by nobody.

    Args:
        names: of attacks, files in `proof/attacks/`; all of them and our own engine when absent.
        processes: more than 1 spreads the work; what calls it must then be guarded by `if __name__ == "__main__"`.
        told: is called with the name of each attack when it is done.

    Raises:
        ArgumentError: there is no attack of this name.

    Example:
        >>> matrix = attack(["nan_is_swept_away"])
        >>> matrix.complete, matrix.rows[0].caught
        (True, {'nan_stays_in_its_row': 'A NaN in a query was swallowed: its row should be NaN.'})
    """
    known = every_attack()
    wanted = [*known, HONEST] if names is None else list(names)
    for name in wanted:
        if name not in known and name != HONEST:
            raise ArgumentError(f"attack must be one of {', '.join(known)}, got {name!r}. Choose one of them.")
    rows = [row for found in _spread(wanted, processes, told) for row in found]
    rows.sort(key=lambda row: (row.attack == HONEST, not row.named, row.attack))
    return KillMatrix({**{name: entry.code for name, entry in invariants().items()}, **{name: law.code for name, law in laws().items()}}, tuple(rows))


def every_attack() -> Mapping[str, Attack | Lie]:
    """All of them by name, those on the example among them."""
    return {name: entry for name, entry in entries("headwise.conformance.mutations").items() if isinstance(entry, Attack | Lie)}


_known: list[KillMatrix] = []


def everything(told: Callable[[str], object] = lambda name: None) -> KillMatrix:
    """The whole matrix on two processors, once: a command and a page may both ask for it.

    Args:
        told: as for `attack`; not called where the matrix is known already.
    """
    if not _known:
        _known.append(attack(processes=min(2, cores()), told=told))
    return _known[0]


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _spread(wanted: list[str], processes: int, told: Callable[[str], object]) -> Iterator[list[Row]]:
    with ExitStack() as stack:
        run: Callable = map
        if processes > 1 and len(wanted) > 1:
            pool = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)))
            run = pool.map
        for name, rows in zip(wanted, run(_rows, wanted), strict=True):
            told(name)
            yield rows


def _rows(name: str) -> list[Row]:
    """Every way of telling one lie."""
    if name == HONEST:
        subjects = (OurAttend(), *(OurAttend(kernel) for kernel in OurAttend().paths), OurLayer(), CallWay(), LayerWay())
        return [_row(name, subject.name, "", "Our own engine.", (), subject) for subject in subjects]
    entry = entries("headwise.conformance.mutations")[name]
    if isinstance(entry, Attack):
        return [_on_the_example(name, entry)]
    several = len(entry.told) > 1
    return [_row(name, told if several else "", entry.code, entry.lie, entry.caught_by, liar) for told, liar in entry.subjects().items()]


class Remembered:
    """A subject that is asked the same only once: laws share their problems. What depends on an upstream gradient is asked anew."""

    def __init__(self, subject: Any) -> None:
        self.subject, self.known = subject, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.subject, name)

    def attend(self, problem: Any, how: How = PLAINLY) -> Answer:
        if how.upstream is not None or how.training:
            return self.subject.attend(problem, how)
        key = (problem, how.weights, how.grad, how.path)
        if key not in self.known:
            self.known[key] = self.subject.attend(problem, how)
        return self.known[key]


def _row(name: str, told: str, code: str, lie: str, named: tuple[str, ...], subject: Any) -> Row:
    asked, remembered = {law_name: law for law_name, law in laws().items() if speaks(law, subject)}, Remembered(deepcopy(subject))
    found = {n: first_finding(n, law, deepcopy(subject) if law.asks_again else remembered, "quick") for n, law in asked.items()}
    return Row(name, told, code, lie, named, tuple(asked), {law_name: finding.why for law_name, finding in found.items() if finding is not None})


def _on_the_example(name: str, entry: Attack) -> Row:
    """M1 to M5 on the 3 × 4 example with two heads, proved by ball arithmetic."""
    verdicts, names = five_moves(2, attack=name).verdicts, {invariant.code: file for file, invariant in invariants().items()}
    fallen = {names[code]: str(verdict) for code, verdict in verdicts.items() if verdict.state == "falls"}
    return Row(name, "", "", entry.lie, entry.caught_by, tuple(invariants()), fallen)
