"""Falls made into failures: each made small and likened to a known fault, and those that are one fault told once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headwise.conformance.adapters.subject import Refused
from headwise.conformance.invariants.law import Law
from headwise.conformance.invariants.repeat_call import asking
from headwise.conformance.invariants.subject_laws import laws
from headwise.conformance.minimise.diagnosis import LAWS_OF_ANY, Likely, likely
from headwise.conformance.minimise.shrinker import Effort, shrunk, weight
from headwise.conformance.minimise.trial import AnyProblem, Fall, Trial, fall_of, nan_sides
from headwise.conformance.oracles.formula import DEFINITION
from headwise.conformance.problems.answer import How
from headwise.conformance.problems.layer_problem import LayerProblem
from headwise.conformance.problems.problem_filter import USUAL, fitted
from headwise.conformance.report.pytest_source import pasted
from headwise.conformance.report.report import Failure
from headwise.conformance.sandbox.check_progress import Progress
from headwise.conformance.sandbox.watched_subject import MANNERS

SEVERITIES = ("wrong", "fragile", "convention")


Small = tuple[Fall, str, Likely | None]


def failures_of(trial: Trial, name: str, effort: Effort, arguments: Mapping[str, Any], told: Progress, known: dict[tuple, Small]) -> Iterator[Failure]:
    """Every kind of fall made small, likened to a known fault; those that are one fault told once.

    Args:
        known: what fell in other views of the same subject, by kind, made small already; this view's is added.
    """
    falls = [*trial.falls.values(), *(Fall(manner, finding.problem, finding) for manner, finding in trial.watched.noted.items())]
    small: list[Small] = []
    each = Effort(effort.tries // max(len(falls), 1), effort.seconds / max(len(falls), 1))
    for n, fall in enumerate(sorted(falls, key=lambda fall: weight(fall.judged))):
        told(f"making a failure smaller ({n + 1} of {len(falls)})")
        if (as_before := _as_before(trial, fall, known)) is not None:
            small.append(as_before)
            continue
        looks_like = None if fall.law in MANNERS else likely(trial.watched, fall.law, _alike(trial, fall), _honest(trial, fall), fall.finding)
        least, why = _least(trial, _lighter(trial, fall, small), each)
        small.append(known.setdefault((type(fall.judged), *fall.kind), (least, why, looks_like)))
    for group in _grouped(trial, small):
        fall, why, looks_like = group[0]
        law = _law_of(fall)
        statement = MANNERS[fall.law][1] if fall.law in MANNERS else law.statement
        test = pasted(name, fall.law, statement, fall.judged, fall.finding, trial.found.subject, arguments)
        also = sorted({other.law for other, *_ in group} - {fall.law})
        yield Failure(fall.law, "" if fall.law in MANNERS else law.code, statement, fall.finding, why, looks_like, tuple(also), test)


def once(failures: Iterable[tuple[Trial, Failure]]) -> list[Failure]:
    """What is seen in several views of a subject told once, with the views that it was seen in: by the same law, or on the same kind of input."""
    seen: list[tuple[list[str], list[Failure]]] = []
    for trial, failure in failures:
        known = next((one for one in seen if trial.view not in one[0] and _seen_before(one[1][0], failure)), None)
        if known is None:
            seen.append(([trial.view], [failure]))
        else:
            known[0].append(trial.view)
            known[1].append(failure)
    several = len({view for views, _ in seen for view in views}) > 1
    return [_with_others(first, others, tuple(views) if several else ()) for views, (first, *others) in seen]


def _seen_before(known: Failure, new: Failure) -> bool:
    """A law that falls in another view of the same subject; or any law, where an attention and its layer go wrong on the same words in the same way."""
    one, other = known.finding, new.finding
    if (known.severity, frozenset(one.problem.options)) != (new.severity, frozenset(other.problem.options)):
        return False
    if known.law == new.law:
        return True
    apart = type(one.problem) is not type(other.problem)
    return apart and not {known.law, new.law} & set(MANNERS) and one.how.weights == other.how.weights and nan_sides(one) == nan_sides(other)


def _with_others(first: Failure, others: list[Failure], views: tuple[str, ...]) -> Failure:
    laws_of_others = {law for other in others for law in (other.law, *other.also)} - {first.law}
    return replace(first, seen_in=views, also=tuple(sorted(laws_of_others.union(first.also))))


def _least(trial: Trial, fall: Fall, effort: Effort) -> tuple[Fall, str]:
    """The same fall on the smallest problem, and why there is none smaller."""
    if fall.law in trial.watched.noted:
        return fall, "It was seen on this input; it was not made smaller."
    best = fall

    def fails(problem: AnyProblem) -> bool:
        nonlocal best
        again = _again(trial, fall, problem)
        best = again or best
        return again is not None

    _, complete = shrunk(fall.judged, fails, effort)
    if not complete:
        return best, "The smallest found in the time given."
    return best, f"Nothing can be left out of it: with one {_parts(best.judged)} less, or a simpler number, the law holds."


def _as_before(trial: Trial, fall: Fall, known: Mapping[tuple, Small]) -> Small | None:
    """What is known of this kind from another view, where its smallest problem fells this view as well."""
    before = known.get((type(fall.judged), *fall.kind))
    if before is None or fall.law in trial.watched.noted:
        return None
    least, why, looks_like = before
    again = _again(trial, fall, least.judged)
    return None if again is None else (again, why, looks_like)


def _lighter(trial: Trial, fall: Fall, small: list[Small]) -> Fall:
    """The fall on a problem that another was made to already, where it asks for the same options and falls in the same way on it; else as it is."""
    for before, *_ in small:
        alike = type(before.judged) is type(fall.judged) and set(before.judged.options) == set(fall.judged.options)
        if alike and fall.law not in trial.watched.noted and weight(before.judged) < weight(fall.judged):
            again = _again(trial, fall, before.judged)
            if again is not None:
                return again
    return fall


def _again(trial: Trial, fall: Fall, problem: AnyProblem) -> Fall | None:
    """The same fall on another problem, or None where it does not fall in the same way."""
    if fitted(problem, trial.watched.honours) is not problem:
        return None
    try:
        again = fall_of(trial.watched, fall.law, _law_of(fall), problem)
    except Refused:
        return None
    same = again is not None and (again.law, again.finding.severity, again.nan, again.reason) == (fall.law, fall.finding.severity, fall.nan, fall.reason)
    return again if same and _signature(again.finding.how) == _signature(fall.finding.how) else None


def _law_of(fall: Fall) -> Law:
    return asking(fall.finding.how) if fall.law in MANNERS else laws().get(fall.law, DEFINITION)


def _signature(how: How) -> tuple:
    return how.weights, how.training, how.path, how.alone, how.grad or how.upstream is not None


def _parts(problem: AnyProblem) -> str:
    """What it consists of and could be left out."""
    batch, heads, queries, keys = problem.shape
    several = {"row of the batch": batch, "head": heads, "query": queries, "key": keys, "option": 2 if problem.options else 1}
    return ", ".join(name for name, count in several.items() if count > 1) or "option"


def _grouped(trial: Trial, small: list[Small]) -> list[list[Small]]:
    """Falls that are one fault, the most telling first: the same attack tells them, or the law of one falls on the input of the other too.

    The plainer of two inputs tells more than an attack that is like the other.
    """
    groups: list[list[Small]] = []
    for one in sorted(small, key=lambda one: (SEVERITIES.index(one[0].finding.severity), one[0].law == "definition", one[2] is None, weight(one[0].judged))):
        mine = next((group for group in groups if _one_fault(trial, group[0], one)), None)
        if mine is not None:
            mine.append(one)
            continue
        more = [group for group in groups if one[2] is None and one[0].finding.severity == group[0][0].finding.severity and _one_fault(trial, one, group[0])]
        groups = [group for group in groups if group not in more]
        groups.append([one, *(other for group in more for other in group)])
    return groups


def _one_fault(trial: Trial, known: Small, new: Small) -> bool:
    (before, _, attack), (fall, _, other) = known, new
    if fall.law in MANNERS or before.law in MANNERS or type(fall.judged) is not type(before.judged):
        return fall.law == before.law and fall.law in MANNERS
    if attack is not None and other is not None and attack.attack == other.attack:
        return True
    if _dead(trial, before) and _dead(trial, fall):
        return fall.nan == before.nan
    if attack is not None and other is not None and not {before.law, fall.law} & LAWS_OF_ANY:
        return False  # every fault makes a law of any fall, and on few problems: what it is like says little
    if fall.nan != before.nan and None not in (fall.nan, before.nan):
        return False
    if fall.nan == before.nan and set(before.finding.problem.options) == set(fall.finding.problem.options):
        return True
    if not set(before.judged.options) <= set(fall.judged.options):
        return False
    extra = set(fall.judged.options) - set(before.judged.options)
    if not extra:
        return True
    try:
        plainer = fall.judged.having(**{name: USUAL[name] for name in extra if name in USUAL})
        return any(fall_of(trial.watched, one.law, _law_of(one), plainer) is not None for one in (before, fall))
    except (Refused, IndexError, RuntimeError, ValueError):
        return False


def _dead(trial: Trial, fall: Fall) -> bool:
    """Whether the worst number is of a row that sees no key; of a gradient, whether there is such a row."""
    found, problem = fall.finding, fall.finding.problem
    if found.got is None or not found.where:
        return False
    live = problem.seen(trial.watched.conventions).any(-1)
    if found.how.upstream is not None:
        return not bool(live.all())
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
