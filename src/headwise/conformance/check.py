"""`hw.check`: every invariant on its problems, the formula on random problems, and every failure minimised."""

import platform
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import metadata

import torch

from headwise.conformance.adapters.convention_probe import ResolvedConvention
from headwise.conformance.adapters.function_adapter import ResolvedSubject
from headwise.conformance.adapters.resolve import declared_conventions, import_path
from headwise.conformance.capabilities import CheckLevel
from headwise.conformance.conventions import Conventions
from headwise.conformance.invariants.definition import DEFINITION
from headwise.conformance.invariants.invariant import Invariant, invariants
from headwise.conformance.minimise.failures import Minimised, failures_of, merge_duplicates
from headwise.conformance.minimise.shrinker import Effort, complexity
from headwise.conformance.minimise.trial import Trial, violation_of
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.random_search import search
from headwise.conformance.report.report import Report
from headwise.conformance.sandbox.check_progress import progress_bar
from headwise.conformance.sandbox.remote_subject import isolated
from headwise.conformance.sandbox.watched_subject import WatchedSubject
from headwise.deprecation import keyword_only, renamed_progress
from headwise.errors import ArgumentError, NotSupported
from headwise.progress import ProgressCallback


@dataclass(frozen=True)
class Budget:
    """How much a level tries.

    Attributes:
        random: the number of random problems.
        random_seconds: the time after which no further random problem is tried.
        shrinking: the effort for minimising all failures together.
        kinds: the number of different failures of one invariant that are reported.
    """

    random: int
    random_seconds: float
    shrinking: Effort
    kinds: int


BUDGETS: Mapping[str, Budget] = {"quick": Budget(60, 5.0, Effort(1500, 10.0), 2), "full": Budget(600, 30.0, Effort(12000, 60.0), 4)}


@keyword_only("level", "conventions", "dtype", "device", "timeout", "arguments")
@renamed_progress("told")
def check(
    subject: object,
    *,
    level: CheckLevel = "quick",
    conventions: Conventions | Mapping[str, str | bool | None] | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
    timeout: float | None = None,
    arguments: Mapping[str, object] | None = None,
    progress: ProgressCallback | None = None,
    shrinking: float | None = None,
    stop_at_first: bool = False,
) -> Report:
    """Try to prove an attention wrong, and report the smallest input on which it is.

    Args:
        subject: a function called like `hw.attend` (it returns the output, or output and weights; options that its signature lacks are not tested), an
            nn.Module, the import path of one ("package.module:attribute"), or a peer by name.
        level: "quick", or "full" for more problems, more random ones, and smaller inputs.
        conventions: what the subject's arguments and results mean, all or some by name; the others are probed and reported.
        dtype: only this one; every dtype that the subject accepts when absent.
        device: where its tensors must be.
        timeout: seconds that a call may take. The subject then runs in a process of its own, which may also crash.
        arguments: the arguments with which a class or a peer is made.
        progress: called with each step; a progress bar on a terminal when absent.
        shrinking: seconds for minimising all failures together; as the level has it when absent.
        stop_at_first: end at the first result that is wrong under every convention, trying the invariants that detect most first: for tests that only ask
            whether there is a fault. What was not reached is listed in the report as not tested.

    Raises:
        ArgumentError, ArgumentTypeError: the subject cannot be checked, or an argument is invalid.
        MissingPackage: a peer whose package is not installed.

    Example:
        >>> import headwise as hw
        >>> hw.check(hw.attend).passed
        True
        >>> wrong = hw.check(lambda query, key, value: torch.softmax(query @ key.mT, -1) @ value)
        >>> wrong.passed, wrong.failures[0].diagnosis.mutation
        (False, 'scale_exponent_wrong')
    """
    if level not in BUDGETS:
        raise ArgumentError(f"level must be 'quick' or 'full', got {level!r}. Choose one of them.")
    if timeout is not None and timeout <= 0:
        raise ArgumentError(f"timeout must be positive, got {timeout}. It is the time limit of one call in seconds.")
    if shrinking is not None and shrinking < 0:
        raise ArgumentError(f"shrinking must not be negative, got {shrinking}. It is the time for minimising failures in seconds.")
    _require_device(device)
    start = time.monotonic()
    name = subject if isinstance(subject, str) else import_path(subject)
    given = dict(arguments or {})
    options = {"arguments": given, "declared": declared_conventions(conventions), "dtype": dtype, "device": device}
    bar = progress_bar(name) if progress is None else nullcontext(progress)
    with torch.random.fork_rng(devices=[]), isolated(subject, timeout, options) as resolved, bar as report_progress:
        trials = list(_trials(resolved, level, report_progress, stop_at_first))
        effort = BUDGETS[level].shrinking if shrinking is None else Effort(sys.maxsize, shrinking)
        known: dict[tuple[Hashable, ...], Minimised] = {}
        found = ((trial, failure) for trial in trials for failure in failures_of(trial, name, effort, given, report_progress, known))
        failures = merge_duplicates(found)
    passed = _summed({invariant: count for invariant, count in trial.tried.items() if invariant not in trial.violations} for trial in trials)
    failed = {failure.invariant for failure in failures} | {invariant for failure in failures for invariant in failure.also}
    return Report(
        subject=name,
        level=level,
        versions=versions(subject),
        conventions=_conventions(trials),
        findings=tuple(failures),
        problems_passed={invariant: count for invariant, count in passed.items() if invariant not in failed},
        not_tested=_not_tested(trials, stop_at_first),
        calls=sum(trial.watched.calls for trial in trials),
        seconds=time.monotonic() - start,
    )


# The oracle judges every number of every problem in every dtype; these find what it has no problem for.
DETECT_MOST = ("error_within_rounding", "code_paths_agree", "gradients_are_correct")


def _require_device(device: str | None) -> None:
    """Refuse a device that torch does not have here, before the subject could be blamed for it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ArgumentError(f"device must be one that torch finds here, got {device!r} ({str(error).splitlines()[0]}). Leave it out for the CPU.") from None


def _trials(resolved: Iterable[ResolvedSubject], level: CheckLevel, progress: ProgressCallback, stop_at_first: bool) -> Iterator[Trial]:
    """Each view of the subject; none after the first that is wrong, where that is enough."""
    for one in resolved:
        trial = _trial(one, level, progress, stop_at_first)
        yield trial
        if stop_at_first and trial.wrong:
            return


def _trial(resolved: ResolvedSubject, level: CheckLevel, progress: ProgressCallback, stop_at_first: bool) -> Trial:
    """Every invariant on its problems, then the formula on random problems."""
    trial = Trial(resolved, WatchedSubject(resolved.subject, noted=dict(getattr(resolved.subject, "noted", {}))))
    applicable = {name: invariant for name, invariant in invariants("call", "layer").items() if invariant.applies_to(trial.watched)}
    order = sorted(applicable, key=lambda name: name not in DETECT_MOST) if stop_at_first else list(applicable)
    for n, name in enumerate(order):
        invariant = applicable[name]
        progress(f"{invariant.code} {invariant.statement}", n, len(applicable))
        _try(trial, name, invariant, invariant.problems(trial.watched, level), BUDGETS[level].kinds, stop_at_first)
        if stop_at_first and trial.wrong:
            return trial
    if trial.watched.level == "call":
        progress("random problems", len(applicable), len(applicable))
        budget = BUDGETS[level]
        kinds = 6 * budget.kinds
        search(trial.watched, lambda problem: _try(trial, "definition", DEFINITION, [problem], kinds, stop_at_first), budget.random, budget.random_seconds)
    return trial


def _try(trial: Trial, name: str, invariant: Invariant, problems: Iterable[AnyProblem], kinds: int, stop_at_first: bool) -> None:
    """Judge the subject on these problems and keep the simplest violation of each kind; no further than the first wrong one, where that is enough."""
    cut = getattr(trial.watched.subject, "cut", None)
    for problem in problems if cut is None else map(cut, problems):
        try:
            violation = violation_of(trial.watched, name, invariant, problem)
        except NotSupported:
            continue
        if violation is None and not trial.watched.answers:
            continue  # the invariant need not apply to the problem, so that a subject that has never answered has passed nothing
        trial.tried[name] = trial.tried.get(name, 0) + 1
        if violation is None:
            continue
        trial.violations.setdefault(name, []).append(violation)
        known = trial.smallest.get(violation.kind)
        below_limit = len([kind for kind in trial.smallest if kind[0] == violation.invariant]) < kinds
        if (known is None and below_limit) or (known is not None and complexity(violation.judged) < complexity(known.judged)):
            trial.smallest[violation.kind] = violation
        if stop_at_first and trial.wrong:
            return


def _conventions(trials: list[Trial]) -> tuple[ResolvedConvention, ...]:
    """Each convention once where all views of a subject share it, else once for each view."""
    found: dict[tuple[str, str], ResolvedConvention] = {}
    for trial in trials:
        for convention in trial.found.conventions:
            found.setdefault((convention.name, str(convention.value)), replace(convention, view=trial.view))
    values = Counter(name for name, _ in found)
    return tuple(convention if values[convention.name] > 1 else replace(convention, view="") for convention in found.values())


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def _not_tested(trials: list[Trial], stop_at_first: bool) -> dict[str, str]:
    """What was not tested and why; of two views of a module, only what neither could test."""
    lacking: dict[str, str] = {}
    for trial in trials:
        lacking |= dict(trial.found.not_tested)
        lacking |= {f"refused: {why}": f"on {count} calls" for why, count in trial.watched.refused.items()}
    tried = {invariant for trial in trials for invariant in trial.tried}
    levels = {trial.watched.level for trial in trials}
    for name, invariant in invariants("call", "layer").items():
        if name not in tried and levels & set(invariant.levels):
            needs = sorted(invariant.needs - frozenset().union(*(trial.watched.supports for trial in trials)))
            unreached = "not reached: the check stopped at the first failure" if stop_at_first and any(trial.wrong for trial in trials) else ""
            lacking[name] = f"it needs {', '.join(needs)}" if needs else unreached or "it has no problem that the subject takes"
    return lacking


def versions(subject: object) -> dict[str, str]:
    """The versions of Python, torch and the subject's own package."""
    packages = {"torch", (subject if isinstance(subject, str) else import_path(subject)).partition(":")[0].partition(".")[0]}
    found = {"python": platform.python_version()}
    for name in sorted(packages):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
