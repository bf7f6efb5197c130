"""`hw.check`: is this attention right? Every law is tried on its problems, and on problems that nobody thought of; what falls is made small."""

import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import torch

from headwise.conformance.adapters.convention_probe import Stated
from headwise.conformance.adapters.find import declarations, named
from headwise.conformance.adapters.function import Found
from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law, Level
from headwise.conformance.invariants.subject_laws import laws
from headwise.conformance.minimise.failures import failures_of, once
from headwise.conformance.minimise.shrinker import Effort, weight
from headwise.conformance.minimise.trial import AnyProblem, Trial, fall_of
from headwise.conformance.oracles.formula import DEFINITION
from headwise.conformance.problems.conventions import Conventions
from headwise.conformance.problems.hypothesis_search import hunt
from headwise.conformance.report.report import Report
from headwise.conformance.sandbox.check_progress import Progress, progress
from headwise.conformance.sandbox.remote_subject import distant
from headwise.conformance.sandbox.watched_subject import Watched
from headwise.errors import ArgumentError


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


def check(
    subject: Any,
    level: Level = "quick",
    conventions: Conventions | Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
    timeout: float | None = None,
    arguments: Mapping[str, Any] | None = None,
    told: Progress | None = None,
    shrinking: float | None = None,
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
        shrinking: seconds that all failures together may be made smaller; as the level has it when absent.

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
    if shrinking is not None and shrinking < 0:
        raise ArgumentError(f"shrinking must not be negative, got {shrinking}. It is the time for making failures smaller in seconds.")
    _there(device)
    start = time.monotonic()
    name = subject if isinstance(subject, str) else named(subject)
    declared = declarations(conventions)
    near = {"arguments": dict(arguments or {}), "declared": declared, "dtype": dtype, "device": device}
    with torch.random.fork_rng(devices=[]), distant(subject, timeout, near) as founds, progress(name) if told is None else nullcontext(told) as tell:
        trials = [_judge(found, level, tell) for found in founds]
        effort = BUDGETS[level].shrinking if shrinking is None else Effort(sys.maxsize, shrinking)
        small: dict = {}
        failures = once((trial, failure) for trial in trials for failure in failures_of(trial, name, effort, dict(arguments or {}), tell, small))
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


def _there(device: str | None) -> None:
    """Said before anybody is accused of it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ArgumentError(f"device must be one that torch finds here, got {device!r} ({str(error).splitlines()[0]}). Leave it out for the CPU.") from None


def _judge(found: Found, level: Level, told: Progress) -> Trial:
    """Every law on its problems, then the formula on problems drawn at random."""
    trial = Trial(found, Watched(found.subject, noted=dict(getattr(found.subject, "noted", {}))))
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
            fall = fall_of(trial.watched, name, law, problem)
        except Refused:
            continue
        if fall is None and not trial.watched.answers:
            continue  # a law may have nothing to say of a problem; of one who never answered that is no praise
        trial.tried[name] = trial.tried.get(name, 0) + 1
        if fall is None:
            continue
        trial.fallen.setdefault(name, []).append(fall)
        known = trial.falls.get(fall.kind)
        room = len([kind for kind in trial.falls if kind[0] == fall.law]) < kinds
        if (known is None and room) or (known is not None and weight(fall.judged) < weight(known.judged)):
            trial.falls[fall.kind] = fall


def _conventions(trials: list[Trial]) -> tuple[Stated, ...]:
    """Each convention once, where all views of a subject have it; else once for each view."""
    found: dict[tuple[str, Any], Stated] = {}
    for trial in trials:
        for stated in trial.found.conventions:
            found.setdefault((stated.name, stated.value), replace(stated, of=trial.view))
    values = Counter(name for name, _ in found)
    return tuple(stated if values[stated.name] > 1 else replace(stated, of="") for stated in found.values())


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
