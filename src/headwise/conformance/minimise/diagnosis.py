"""What a fault looks like: the attack that gives the same wrong numbers as the subject."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from headwise.axes import Tensor
from headwise.catalog import entries
from headwise.conformance.adapters.convention_probe import alike
from headwise.conformance.adapters.subject import Subject
from headwise.conformance.mutations.lie import Lie
from headwise.conformance.oracles.tolerance import differ, room
from headwise.conformance.problems.answer import Answer, How
from headwise.conformance.report.finding import Finding

LAWS_OF_ANY = frozenset({"definition", "error_stays_within_rounding"})  # every fault makes them fall


@dataclass(frozen=True)
class Likely:
    """A fault by name.

    Attributes:
        attack: file name of the attack.
        way: of telling it.
        lie: what is claimed, in a sentence.
        threads: public threads where the like happened.
    """

    attack: str
    way: str
    lie: str
    threads: tuple[str, ...]


def likely(subject: Subject, law: str, failed: Sequence[tuple[Any, How]], others: Sequence[Any], finding: Finding | None = None) -> Likely | None:
    """The attack that the law must catch, that gives the subject's numbers where it failed, and mostly elsewhere too.

    Args:
        failed: problems as they were found, before they were shrunk: on a small one many faults look alike.
        others: further problems, on which the subject may be right.
        finding: the number that is wrong; the attack must give that very number.
    """
    told = [(asked, _given(subject, *asked)) for asked in failed]
    plain: list[tuple[Any, Answer]] | None = None
    best, most = None, 0.5
    for name, lie, way, liar in _liars(subject):
        if law not in LAWS_OF_ANY and law not in lie.caught_by:
            continue
        if all(_same(_given(liar, _meant(subject, problem), how), got) for (problem, how), got in told) and _tells(liar, subject, finding):
            if plain is None:  # few faults have a suspect at all
                plain = [(problem, got) for problem in others if (got := _given(subject, problem, How())) is not None]
            share = sum(_same(_given(liar, _meant(subject, problem), How()), got) for problem, got in plain) / max(len(plain), 1)
            if share > most:
                best, most = Likely(name, way, lie.lie, lie.seen_in), share
    return best


def _meant(subject: Subject, problem: Any) -> Any:
    """The problem with the corner of its triangle spelled out, since the liars have another than some subjects."""
    top_left = subject.conventions.corner == "top-left" and getattr(problem, "query_offset", 0) is None
    return problem.having(query_offset=0) if top_left else problem


def _liars(subject: Subject) -> Iterator[tuple[str, Lie, str, Any]]:
    for name, entry in entries("headwise.conformance.mutations").items():
        if isinstance(entry, Lie) and entry.level == subject.level and entry.caught_by:
            for way, liar in entry.subjects().items():
                yield name, entry, way, liar


def _tells(liar: Any, subject: Subject, finding: Finding | None) -> bool:
    """Whether a liar gives the very number that was found wrong, and not one that is nearer to what is right: of numbers that are
    right but for rounding every liar gives the like, where it happens to tell the truth."""
    if finding is None or finding.got is None or finding.right is None or finding.got.shape != finding.right.shape:
        return True
    answer = _given(liar, _meant(subject, finding.problem), finding.how)
    if answer is None:
        return False
    shown = answer.weights if finding.how.weights else None
    said = [x for x in (answer.output, shown, *answer.gradients.values()) if x is not None and x.shape == finding.got.shape]
    if not said:
        return _lies(answer, subject, finding)
    got, right = float(finding.got[finding.where]), float(finding.right[finding.where])
    near = abs(got - right) / 2
    numbers = [float(x.detach()[finding.where]) for x in said]
    return any(abs(number - got) <= near or number == got or not (isfinite(number) or isfinite(got)) for number in numbers)


def _lies(answer: Answer, subject: Subject, finding: Finding) -> bool:
    """Whether a liar's answer is wrong where the fault was seen: on a problem that it is blind to it explains nothing."""
    right, allow = finding.problem.right(subject.conventions), room(subject, finding.problem)
    if differ(finding.problem, answer.output, right.output, allow.output, "") is not None:
        return True
    shown = answer.weights if finding.how.weights and right.weights is not None else None
    return shown is not None and shown.shape == right.weights.shape and differ(finding.problem, shown, right.weights, allow.weights, "") is not None


def _given(subject: Any, problem: Any, how: How) -> Answer | None:
    try:
        return subject.attend(problem, how)
    except Exception:  # noqa: BLE001 - a liar may raise anything; then it gives no numbers
        return None


def _same(one: Answer | None, other: Answer | None) -> bool:
    if one is None or other is None or not _alike(one.output, other.output):
        return False
    if one.weights is not None and other.weights is not None and not _alike(one.weights, other.weights):
        return False
    return all(_alike(one.gradients[name], other.gradients[name]) for name in set(one.gradients) & set(other.gradients))


def _alike(one: Tensor, other: Tensor) -> bool:
    return alike(one, other.detach().cpu().double())
