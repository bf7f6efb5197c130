"""What a fault looks like: the attack that gives the same wrong numbers as the subject."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.axes import Tensor
from headwise.catalog import entries
from headwise.errors import HeadwiseError
from headwise.proof.answer import Answer, How
from headwise.proof.lie import Lie
from headwise.proof.subject import Subject
from headwise.subjects.probing import alike


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


def likely(subject: Subject, failed: Sequence[tuple[Any, How]], honest: Sequence[Any]) -> Likely | None:
    """The attack that gives the subject's numbers on every problem on which it failed; of several the one that agrees with it on most others.

    Args:
        failed: problems as they were found, before they were shrunk: on a small one many faults look alike.
        honest: further problems.
    """
    right = [_given(subject, problem, how) for problem, how in failed]
    told = list(zip(failed, right, strict=True))
    suspects = [suspect for suspect in _liars(subject) if all(_same(_given(suspect[3], *asked), got) for asked, got in told)]
    if not suspects or any(got is None for got in right):
        return None
    agreeing = [sum(_same(_given(liar, problem, How()), _given(subject, problem, How())) for problem in honest) for *_, liar in suspects]
    name, lie, way, _ = suspects[agreeing.index(max(agreeing))]
    return Likely(name, way, lie.lie, lie.seen_in)


def _liars(subject: Subject) -> Iterator[tuple[str, Lie, str, Any]]:
    for name, entry in entries("headwise.proof.attacks").items():
        if isinstance(entry, Lie) and entry.level == subject.level and entry.caught_by:
            for way, liar in entry.subjects().items():
                yield name, entry, way, liar


def _given(subject: Any, problem: Any, how: How) -> Answer | None:
    try:
        return subject.attend(problem, how)
    except (HeadwiseError, RuntimeError, ValueError, IndexError, TypeError):
        return None


def _same(one: Answer | None, other: Answer | None) -> bool:
    if one is None or other is None or not _alike(one.output, other.output):
        return False
    if one.weights is not None and other.weights is not None and not _alike(one.weights, other.weights):
        return False
    return all(_alike(one.gradients[name], other.gradients[name]) for name in set(one.gradients) & set(other.gradients))


def _alike(one: Tensor, other: Tensor) -> bool:
    return alike(one, other.detach().cpu().double())
