"""Violations made into failures: each minimised and matched to a known fault, and violations of one fault merged."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headwise.conformance.answer import CallMode
from headwise.conformance.invariants.definition import DEFINITION
from headwise.conformance.invariants.invariant import Invariant, invariants
from headwise.conformance.invariants.repeat_call import repeat_call
from headwise.conformance.minimise.diagnosis import UNSPECIFIC_INVARIANTS, diagnose
from headwise.conformance.minimise.shrinker import Effort, complexity, shrink
from headwise.conformance.minimise.trial import Trial, Violation, nan_in_got_and_expected, violation_of
from headwise.conformance.problems.layer_problem import AnyProblem, LayerProblem
from headwise.conformance.problems.problem_filter import DEFAULTS, fit
from headwise.conformance.report.pytest_source import pytest_function
from headwise.conformance.report.report import Diagnosis, Failure
from headwise.conformance.sandbox.watched_subject import CALL_RULES
from headwise.errors import NotSupported
from headwise.progress import ProgressCallback

SEVERITIES = ("wrong", "fragile", "convention")

Minimised = tuple[Violation, str, Diagnosis | None]
"""A violation on its smallest problem, why there is no smaller one, and the known fault that it looks like."""


def failures_of(
    trial: Trial,
    name: str,
    effort: Effort,
    arguments: Mapping[str, Any],
    progress: ProgressCallback,
    known: dict[tuple[Hashable, ...], Minimised],
) -> Iterator[Failure]:
    """Every kind of violation minimised and matched to a known fault; violations of one fault are merged.

    Args:
        known: by kind, what was minimised in other views of the same subject; this view's results are added.
    """
    violations = [*trial.smallest.values(), *(Violation(rule, finding.problem, finding) for rule, finding in trial.watched.noted.items())]
    minimised: list[Minimised] = []
    share = Effort(effort.tries // max(len(violations), 1), effort.seconds / max(len(violations), 1))
    for n, violation in enumerate(sorted(violations, key=lambda violation: complexity(violation.judged))):
        progress("minimising failures", n, len(violations))
        before = _minimised_before(trial, violation, known)
        if before is None:
            before = _minimise(trial, violation, minimised, share)
            before = known.setdefault((type(violation.judged), *violation.kind), before)
        minimised.append(before)
    for group in _grouped(trial, minimised):
        violation, smallest, diagnosis = group[0]
        is_rule = violation.invariant in CALL_RULES
        invariant = _invariant_of(violation)
        statement = CALL_RULES[violation.invariant][1] if is_rule else invariant.statement
        test = pytest_function(name, violation.invariant, statement, violation.judged, violation.finding, trial.found.subject, arguments)
        also = tuple(sorted({other.invariant for other, *_ in group} - {violation.invariant}))
        yield Failure(violation.invariant, "" if is_rule else invariant.code, statement, violation.finding, smallest, diagnosis, also, test)


def _minimise(trial: Trial, violation: Violation, minimised: list[Minimised], effort: Effort) -> Minimised:
    """The violation on its smallest problem, matched to a known fault on the problem where it was found."""
    diagnosis = None
    if violation.invariant not in CALL_RULES:
        diagnosis = diagnose(trial.watched, violation.invariant, _of_same_kind(trial, violation), _further_problems(trial, violation), violation.finding)
    smallest, why = _smallest(trial, _on_simpler_problem(trial, violation, minimised), effort)
    return smallest, why, diagnosis


def merge_duplicates(failures: Iterable[tuple[Trial, Failure]]) -> list[Failure]:
    """The failures, those found in several views of a subject merged into one that lists the views."""
    merged: list[tuple[list[str], list[Failure]]] = []
    for trial, failure in failures:
        known = next((one for one in merged if trial.view not in one[0] and _same_in_other_view(one[1][0], failure)), None)
        if known is None:
            merged.append(([trial.view], [failure]))
        else:
            known[0].append(trial.view)
            known[1].append(failure)
    several = len({view for views, _ in merged for view in views}) > 1
    return [_with_others(first, others, tuple(views) if several else ()) for views, (first, *others) in merged]


def _same_in_other_view(known: Failure, new: Failure) -> bool:
    """Whether a failure is the same as one in another view: the same invariant, or, of an attention and its layer, the same kind of input and result."""
    one, other = known.finding, new.finding
    if (known.severity, frozenset(one.problem.options)) != (new.severity, frozenset(other.problem.options)):
        return False
    if known.invariant == new.invariant:
        return True
    if type(one.problem) is type(other.problem) or {known.invariant, new.invariant} & set(CALL_RULES):
        return False
    return one.mode.weights == other.mode.weights and nan_in_got_and_expected(one) == nan_in_got_and_expected(other)


def _with_others(first: Failure, others: list[Failure], views: tuple[str, ...]) -> Failure:
    of_others = {invariant for other in others for invariant in (other.invariant, *other.also)} - {first.invariant}
    return replace(first, views=views, also=tuple(sorted(of_others.union(first.also))))


def _smallest(trial: Trial, violation: Violation, effort: Effort) -> tuple[Violation, str]:
    """The same violation on the smallest problem, and why there is no smaller one."""
    if violation.invariant in trial.watched.noted:
        return violation, "It was observed on this input, which was not minimised."
    best = violation

    def fails(problem: AnyProblem) -> bool:
        nonlocal best
        again = _again(trial, violation, problem)
        best = again or best
        return again is not None

    _, complete = shrink(violation.judged, fails, effort)
    if not complete:
        return best, "The smallest input found in the time available."
    return best, f"Nothing can be removed: with one {_removable(best.judged)} less, or a simpler number, it passes."


def _minimised_before(trial: Trial, violation: Violation, known: Mapping[tuple[Hashable, ...], Minimised]) -> Minimised | None:
    """What another view has minimised of this kind, where its smallest problem fails in this view too."""
    before = known.get((type(violation.judged), *violation.kind))
    if before is None or violation.invariant in trial.watched.noted:
        return None
    smallest, why, diagnosis = before
    again = _again(trial, violation, smallest.judged)
    return None if again is None else (again, why, diagnosis)


def _on_simpler_problem(trial: Trial, violation: Violation, minimised: list[Minimised]) -> Violation:
    """The violation on a problem that another was minimised to, where it has the same options and fails in the same way; else unchanged."""
    for before, *_ in minimised:
        same_options = type(before.judged) is type(violation.judged) and set(before.judged.options) == set(violation.judged.options)
        if same_options and violation.invariant not in trial.watched.noted and complexity(before.judged) < complexity(violation.judged):
            again = _again(trial, violation, before.judged)
            if again is not None:
                return again
    return violation


def _again(trial: Trial, violation: Violation, problem: AnyProblem) -> Violation | None:
    """The same violation on another problem, or None where that does not fail in the same way."""
    if fit(problem, trial.watched.supports) is not problem:
        return None
    try:
        again = violation_of(trial.watched, violation.invariant, _invariant_of(violation), problem)
    except NotSupported:
        return None
    return again if again is not None and _manner(again) == _manner(violation) else None


def _manner(violation: Violation) -> tuple[Hashable, ...]:
    """In what way it fails."""
    mode, severity = violation.finding.mode, violation.finding.severity
    of_mode = (mode.weights, mode.training, mode.path, mode.only_grad_of, mode.grad or mode.upstream is not None)
    return violation.invariant, severity, violation.nan, violation.reason, *of_mode


def _invariant_of(violation: Violation) -> Invariant:
    if violation.invariant in CALL_RULES:
        return repeat_call(violation.finding.mode)
    return invariants("call", "layer").get(violation.invariant, DEFINITION)


def _removable(problem: AnyProblem) -> str:
    """What could be removed from it, in words."""
    batch, heads, queries, keys = problem.shape
    counts = {"row of the batch": batch, "head": heads, "query": queries, "key": keys, "option": 2 if problem.options else 1}
    return ", ".join(name for name, count in counts.items() if count > 1) or "option"


def _grouped(trial: Trial, minimised: list[Minimised]) -> list[list[Minimised]]:
    """Violations grouped by fault, the most informative first: those that match the same mutation, or where one invariant fails on the other's input too.

    A simpler input is more informative than a match with a mutation.
    """
    groups: list[list[Minimised]] = []
    order = {severity: n for n, severity in enumerate(SEVERITIES)}
    for one in sorted(minimised, key=lambda one: (order[one[0].finding.severity], one[0].invariant == "definition", one[2] is None, complexity(one[0].judged))):
        group = next((group for group in groups if _one_fault(trial, group[0], one)), None)
        if group is not None:
            group.append(one)
            continue
        absorbed = [
            group for group in groups if one[2] is None and one[0].finding.severity == group[0][0].finding.severity and _one_fault(trial, one, group[0])
        ]
        groups = [group for group in groups if group not in absorbed]
        groups.append([one, *(other for group in absorbed for other in group)])
    return groups


def _one_fault(trial: Trial, known: Minimised, new: Minimised) -> bool:
    """Whether two violations come from one fault."""
    (before, _, diagnosis), (violation, _, other) = known, new
    if violation.invariant in CALL_RULES or before.invariant in CALL_RULES or type(violation.judged) is not type(before.judged):
        return violation.invariant == before.invariant and violation.invariant in CALL_RULES
    if diagnosis is not None and other is not None and diagnosis.mutation == other.mutation:
        return True
    if _in_fully_masked_row(trial, before) and _in_fully_masked_row(trial, violation):
        return violation.nan == before.nan
    if diagnosis is not None and other is not None and not {before.invariant, violation.invariant} & UNSPECIFIC_INVARIANTS:
        return False  # two different mutations; an unspecific invariant fails for every fault, so that its diagnosis means little
    if violation.nan != before.nan and None not in (violation.nan, before.nan):
        return False
    if violation.nan == before.nan and set(before.finding.problem.options) == set(violation.finding.problem.options):
        return True
    if not set(before.judged.options) <= set(violation.judged.options):
        return False
    extra = set(violation.judged.options) - set(before.judged.options)
    if not extra:
        return True
    try:
        simpler = violation.judged.replace(**{name: DEFAULTS[name] for name in extra if name in DEFAULTS})
        return any(violation_of(trial.watched, one.invariant, _invariant_of(one), simpler) is not None for one in (before, violation))
    except (NotSupported, IndexError, RuntimeError, ValueError):
        return False


def _in_fully_masked_row(trial: Trial, violation: Violation) -> bool:
    """Whether the worst number belongs to a fully masked row; of a gradient, whether there is such a row."""
    found, problem = violation.finding, violation.finding.problem
    if found.got is None or not found.where:
        return False
    attending = problem.visible(trial.watched.conventions).any(-1)
    if found.mode.upstream is not None:
        return not bool(attending.all())
    if isinstance(problem, LayerProblem) and found.got.dim() == 3:
        return not bool(attending[found.where[0], :, found.where[1]].all())
    return len(found.where) > 2 and found.got.shape[:3] == attending.shape and not bool(attending[found.where[:3]])


def _of_same_kind(trial: Trial, violation: Violation) -> list[tuple[AnyProblem, CallMode]]:
    """The violation and up to two others of the same kind, on the problems where they were found."""
    others = [one for one in trial.violations.get(violation.invariant, ()) if one.kind == violation.kind and one is not violation]
    return [(one.finding.problem, one.finding.mode) for one in [violation, *others[:2]]]


def _further_problems(trial: Trial, violation: Violation) -> list[AnyProblem]:
    """A few more problems, on which candidate mutations differ."""
    problems = invariants("call", "layer")["rows_sum_to_one"].problems(trial.watched, "quick")
    return [problem for problem in problems if isinstance(problem, type(violation.judged))][:10]
