"""`hw.check`: is this attention right? Every law is tried on its problems, and on problems that nobody thought of; what falls is made small."""

import platform
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

import torch

from headwise.errors import ArgumentError
from headwise.proof.answer import PLAINLY, How
from headwise.proof.conventions import Conventions
from headwise.proof.finding import Finding
from headwise.proof.fit import USUAL, fitted
from headwise.proof.judging import differ, room
from headwise.proof.law import Law, Level
from headwise.proof.layer_problem import LayerProblem
from headwise.proof.problem import Problem
from headwise.proof.subject import Refused
from headwise.subjects.definition import DEFINITION
from headwise.subjects.find import declarations, named
from headwise.subjects.function import Found
from headwise.subjects.laws import laws
from headwise.subjects.likeness import Likely, likely
from headwise.subjects.paste import pasted
from headwise.subjects.probing import Stated
from headwise.subjects.progress import Progress, progress
from headwise.subjects.remote import distant
from headwise.subjects.report import Failure, Report
from headwise.subjects.search import hunt
from headwise.subjects.shrink import Effort, shrunk, weight
from headwise.subjects.watch import MANNERS, Misbehaved, Watched

AnyProblem = Problem | LayerProblem


SEVERITIES = ("wrong", "fragile", "convention")


@dataclass(frozen=True)
class Budget:
    """How much is tried.

    Attributes:
        hunted: problems drawn at random.
        hunting: seconds after which their drawing ends all the same.
        shrinking: how long all failures together may be made smaller.
        kinds: failures of one law that are told apart.
    """

    hunted: int
    hunting: float
    shrinking: Effort
    kinds: int


BUDGETS: Mapping[str, Budget] = {"quick": Budget(60, 5.0, Effort(1500, 10.0), 2), "full": Budget(600, 30.0, Effort(12000, 60.0), 4)}


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
        got, right, where = self.finding.got, self.finding.right, self.finding.where
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


def check(
    subject: Any,
    level: Level = "quick",
    conventions: Conventions | Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
    timeout: float | None = None,
    arguments: Mapping[str, Any] | None = None,
    told: Progress | None = None,
) -> Report:
    """Try to prove an attention wrong, and say on which smallest input it is.

    Args:
        subject: a function called like `hw.attend` (it gives the output, or output and weights; keyword arguments that its
            signature lacks are not tested), an nn.Module, the import path of one ("package.module:attribute"), or a peer by name.
        level: "quick", or "full" for more problems, more drawn at random, and smaller inputs.
        conventions: what the subject means by its words, all or some by name; the others are probed, and reported.
        dtype: only this one; every one that the subject takes when absent.
        device: where tensors are to lie.
        timeout: seconds that a call may take. The subject then runs in a process of its own, which may also die.
        arguments: with which a class or a peer is made.
        told: is called with what is being done, step by step; a bar on the terminal where there is none.

    Raises:
        ArgumentError, ArgumentTypeError: the subject is nothing that can be checked, or an argument is none.
        MissingPackage: a peer whose package is not installed.

    Example:
        >>> import headwise as hw
        >>> hw.check(hw.attend).passed
        True
        >>> wrong = hw.check(lambda query, key, value: torch.softmax(query @ key.mT, -1) @ value)
        >>> wrong.passed, wrong.failures[0].likely.attack
        (False, 'scale_is_another_power')
    """
    if level not in BUDGETS:
        raise ArgumentError(f"level must be 'quick' or 'full', got {level!r}. Choose one of them.")
    if timeout is not None and timeout <= 0:
        raise ArgumentError(f"timeout must be positive, got {timeout}. It is the time for one call in seconds.")
    start = time.monotonic()
    name = subject if isinstance(subject, str) else named(subject)
    declared = declarations(conventions)
    near = {"arguments": dict(arguments or {}), "declared": declared, "dtype": dtype, "device": device}
    with distant(subject, timeout, near) as founds, progress(name) if told is None else nullcontext(told) as tell:
        trials = [_judge(found, level, tell) for found in founds]
        failures = _once((trial, failure) for trial in trials for failure in _failures(trial, name, level, dict(arguments or {}), tell))
    held = _merged({law: count for law, count in trial.tried.items() if law not in trial.fallen} for trial in trials)
    fallen = {failure.law for failure in failures} | {law for failure in failures for law in failure.also}
    return Report(
        subject=name,
        level=level,
        versions=versions(subject),
        conventions=_conventions(trials),
        findings=tuple(failures),
        held={law: count for law, count in held.items() if law not in fallen},
        not_tested=_untested(trials),
        calls=sum(trial.watched.calls for trial in trials),
        seconds=time.monotonic() - start,
    )


def _judge(found: Found, level: Level, told: Progress) -> Trial:
    """Every law on its problems, then the formula on problems drawn at random."""
    trial = Trial(found, Watched(found.subject))
    for name, law in laws().items():
        if trial.watched.level in law.levels and law.needs <= trial.watched.honours:
            told(f"{law.code} {law.statement}")
            _try(trial, name, law, law.problems(trial.watched, level), BUDGETS[level].kinds)
    if trial.watched.level == "call":
        told("problems drawn at random")
        budget = BUDGETS[level]
        hunt(trial.watched, lambda problem: _try(trial, "definition", DEFINITION, [problem], 6 * budget.kinds), budget.hunted, budget.hunting)
    return trial


def _try(trial: Trial, name: str, law: Law, problems: Iterable[AnyProblem], kinds: int) -> None:
    cut = getattr(trial.watched.subject, "cut", None)
    for problem in problems if cut is None else map(cut, problems):
        try:
            fall = _falls(trial.watched, name, law, problem)
        except Refused:
            continue
        trial.tried[name] = trial.tried.get(name, 0) + 1
        if fall is None:
            continue
        trial.fallen.setdefault(name, []).append(fall)
        known = trial.falls.get(fall.kind)
        room = len([kind for kind in trial.falls if kind[0] == fall.law]) < kinds
        if (known is None and room) or (known is not None and weight(problem) < weight(known.judged)):
            trial.falls[fall.kind] = fall


def _falls(watched: Watched, name: str, law: Law, problem: AnyProblem) -> Fall | None:
    """The law's finding; or how the subject misbehaved, which is a finding of its own."""
    try:
        finding = law.judge(watched, problem)
    except Misbehaved as odd:
        severity, _ = MANNERS[odd.manner]
        return Fall(odd.manner, problem, Finding(severity, problem, str(odd), how=odd.how, invariant=odd.manner))
    return None if finding is None else Fall(name, problem, replace(_blamed(watched, problem, finding), invariant=name))


def _blamed(watched: Watched, judged: AnyProblem, finding: Finding) -> Finding:
    """Where two answers differ and the one that was looked at is right, the other is to blame: then the finding is about that one."""
    other = finding.problem
    if other is judged or finding.got is None or type(other) is not type(judged) or finding.how != PLAINLY:
        return finding
    right = other.right(watched.conventions).output
    if finding.got.shape != right.shape or differ(other, finding.got, right, 2 * room(watched, other).output, "") is not None:
        return finding
    try:
        said = watched.attend(judged).output
    except (Refused, Misbehaved):
        return finding
    return differ(judged, said, judged.right(watched.conventions).output, room(watched, judged).output, finding.why, severity=finding.severity) or finding


def _failures(trial: Trial, name: str, level: Level, arguments: Mapping[str, Any], told: Progress) -> Iterator[Failure]:
    """Every kind of fall made small, likened to a known fault; those that are one fault told once."""
    falls = [*trial.falls.values(), *(Fall(manner, finding.problem, finding) for manner, finding in trial.watched.noted.items())]
    small: list[tuple[Fall, str, Likely | None]] = []
    effort = BUDGETS[level].shrinking
    each = Effort(effort.tries // max(len(falls), 1), effort.seconds / max(len(falls), 1))
    for n, fall in enumerate(sorted(falls, key=lambda fall: weight(fall.judged))):
        told(f"making a failure smaller ({n + 1} of {len(falls)})")
        looks_like = None if fall.law in MANNERS else likely(trial.watched, fall.law, _alike(trial, fall), _honest(trial, fall))
        least, why = _least(trial, fall, each)
        small.append((least, why, looks_like))
    for group in _grouped(trial, small):
        fall, why, looks_like = group[0]
        law = _law_of(fall)
        statement = MANNERS[fall.law][1] if fall.law in MANNERS else law.statement
        test = pasted(name, fall.law, statement, fall.judged, fall.finding, trial.found.subject, arguments)
        also = sorted({other.law for other, *_ in group} - {fall.law})
        yield Failure(fall.law, "" if fall.law in MANNERS else law.code, statement, fall.finding, why, looks_like, tuple(also), test)


def _once(failures: Iterable[tuple[Trial, Failure]]) -> list[Failure]:
    """What is seen in several views of a subject told once, with the views that it was seen in."""
    seen: list[tuple[tuple, list[str], Failure]] = []
    for trial, failure in failures:
        kind, view = (failure.law, failure.severity, frozenset(failure.finding.problem.options)), trial.view
        known = next((views for other, views, _ in seen if other == kind and view not in views), None)
        if known is None:
            seen.append((kind, [view], failure))
        else:
            known.append(view)
    several = len({view for _, views, _ in seen for view in views}) > 1
    return [replace(failure, seen_in=tuple(views)) if several else failure for _, views, failure in seen]


def _conventions(trials: list[Trial]) -> tuple[Stated, ...]:
    """Each convention once, where all views of a subject have it; else once for each view."""
    found: dict[tuple[str, Any], Stated] = {}
    for trial in trials:
        for stated in trial.found.conventions:
            found.setdefault((stated.name, stated.value), replace(stated, of=trial.view))
    values = Counter(name for name, _ in found)
    return tuple(stated if values[stated.name] > 1 else replace(stated, of="") for stated in found.values())


def _least(trial: Trial, fall: Fall, effort: Effort) -> tuple[Fall, str]:
    """The same fall on the smallest problem, and why there is none smaller."""
    if fall.law in trial.watched.noted:
        return fall, "It was seen on this input; it was not made smaller."
    best = fall

    def fails(problem: AnyProblem) -> bool:
        nonlocal best
        if fitted(problem, trial.watched.honours) is not problem:
            return False
        try:
            again = _falls(trial.watched, fall.law, _law_of(fall), problem)
        except Refused:
            return False
        same = again is not None and (again.law, again.finding.severity, again.nan, again.reason) == (fall.law, fall.finding.severity, fall.nan, fall.reason)
        if same and _signature(again.finding.how) == _signature(fall.finding.how):
            best = again
            return True
        return False

    _, complete = shrunk(fall.judged, fails, effort)
    if not complete:
        return best, "The smallest found in the time given."
    return best, f"Nothing can be left out of it: with one {_parts(best.judged)} less, or a simpler number, the law holds."


def _law_of(fall: Fall) -> Law:
    return laws().get(fall.law, DEFINITION)


def _signature(how: How) -> tuple:
    return how.weights, how.training, how.path, how.grad or how.upstream is not None


def _parts(problem: AnyProblem) -> str:
    """What it consists of and could be left out."""
    batch, heads, queries, keys = problem.shape
    several = {"row of the batch": batch, "head": heads, "query": queries, "key": keys, "option": 2 if problem.options else 1}
    return ", ".join(name for name, count in several.items() if count > 1) or "option"


def _grouped(trial: Trial, small: list[tuple[Fall, str, Likely | None]]) -> list[list[tuple[Fall, str, Likely | None]]]:
    """Falls that are one fault, the most telling first: the same attack tells them, or the law of one falls on the input of the other too."""
    groups: list[list[tuple[Fall, str, Likely | None]]] = []
    for one in sorted(small, key=lambda one: (SEVERITIES.index(one[0].finding.severity), one[0].law == "definition", one[2] is None, weight(one[0].judged))):
        mine = next((group for group in groups if _one_fault(trial, group[0], one)), None)
        if mine is None:
            groups.append([one])
        else:
            mine.append(one)
    return groups


def _one_fault(trial: Trial, known: tuple[Fall, str, Likely | None], new: tuple[Fall, str, Likely | None]) -> bool:
    (before, _, attack), (fall, _, other) = known, new
    if fall.law in MANNERS or before.law in MANNERS or type(fall.judged) is not type(before.judged):
        return fall.law == before.law and fall.law in MANNERS
    if attack is not None and other is not None and attack.attack == other.attack:
        return True
    if _dead(trial, before) and _dead(trial, fall):
        return fall.nan == before.nan
    if attack is not None and other is not None:
        return False
    if (fall.nan != before.nan and None not in (fall.nan, before.nan)) or not set(before.judged.options) <= set(fall.judged.options):
        return False
    extra = set(fall.judged.options) - set(before.judged.options)
    if not extra:
        return True
    try:
        plainer = fall.judged.having(**{name: USUAL[name] for name in extra if name in USUAL})
        return any(_falls(trial.watched, one.law, _law_of(one), plainer) is not None for one in (before, fall))
    except (Refused, IndexError, RuntimeError, ValueError):
        return False


def _dead(trial: Trial, fall: Fall) -> bool:
    """Whether the worst number is of a row that sees no key."""
    found, problem = fall.finding, fall.finding.problem
    if found.got is None or not found.where:
        return False
    live = problem.seen(trial.watched.conventions).any(-1)
    if isinstance(problem, LayerProblem) and found.got.dim() == 3:
        return not bool(live[found.where[0], :, found.where[1]].all())
    return len(found.where) > 2 and found.got.shape[:3] == live.shape and not bool(live[found.where[:3]])


def _alike(trial: Trial, fall: Fall) -> list[tuple[AnyProblem, How]]:
    """The fall and a few others of the same law and kind, as they were found."""
    others = [one for one in trial.fallen.get(fall.law, ()) if one.kind == fall.kind and one is not fall]
    return [(one.finding.problem, one.finding.how) for one in [fall, *others[:2]]]


def _honest(trial: Trial, fall: Fall) -> list[AnyProblem]:
    """A few more problems, on which suspects can be told apart."""
    law = laws().get("rows_sum_to_one") or next(iter(laws().values()))
    return [problem for problem in law.problems(trial.watched, "quick") if isinstance(problem, type(fall.judged))][:10]


def _merged(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def _untested(trials: list[Trial]) -> dict[str, str]:
    """What was not tried and why; of two views of a module, only what neither could try."""
    lacking: dict[str, str] = {}
    for trial in trials:
        lacking |= dict(trial.found.not_tested)
        lacking |= {f"refused: {why}": f"on {count} calls" for why, count in trial.watched.refused.items()}
    tried = {law for trial in trials for law in trial.tried}
    levels = {trial.watched.level for trial in trials}
    for name, law in laws().items():
        if name not in tried and levels & set(law.levels):
            needs = sorted(law.needs - frozenset().union(*(trial.watched.honours for trial in trials)))
            lacking[name] = f"it needs {', '.join(needs)}" if needs else "no problem of it can be asked"
    return lacking


def versions(subject: Any) -> dict[str, str]:
    """Versions that a report is worth nothing without."""
    packages = {"torch", (subject if isinstance(subject, str) else named(subject)).partition(":")[0].partition(".")[0]}
    found = {"python": platform.python_version()}
    for name in sorted(packages):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
