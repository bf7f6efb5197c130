"""A failure matched to a known fault: the mutation that gives the same wrong numbers as the subject."""

from collections.abc import Iterator, Sequence
from math import isfinite

from headwise.axes import Tensor
from headwise.conformance.adapters.convention_probe import roughly_equal
from headwise.conformance.answer import PLAIN, Answer, CallMode
from headwise.conformance.comparison.finding import Finding
from headwise.conformance.comparison.tolerance import mismatch, tolerance
from headwise.conformance.mutations.mutation import Mutation, mutations
from headwise.conformance.problems.layer_problem import AnyProblem
from headwise.conformance.problems.subject import Subject
from headwise.conformance.report.report import Diagnosis

UNSPECIFIC_INVARIANTS = frozenset({"definition", "error_within_rounding"})  # they fail for every fault
LEAST_AGREEMENT = 0.5  # share of further problems on which a mutation must give the subject's numbers


def diagnose(
    subject: Subject,
    invariant: str,
    failed: Sequence[tuple[AnyProblem, CallMode]],
    others: Sequence[AnyProblem],
    finding: Finding | None = None,
) -> Diagnosis | None:
    """The mutation that the invariant must detect and that gives the subject's numbers, where the invariant failed and on most other problems.

    Args:
        failed: the problems as they were found, before they were minimised: on a small problem many faults look alike.
        others: further problems, on which the subject may be correct.
        finding: the wrong number, which the mutation must give too.
    """
    answers = [(problem, mode, _answer(subject, problem, mode)) for problem, mode in failed]
    further: list[tuple[AnyProblem, Answer]] | None = None
    best, most = None, LEAST_AGREEMENT
    for name, mutation, variant, mutated in _mutated_subjects(subject):
        if invariant not in UNSPECIFIC_INVARIANTS and invariant not in mutation.detected_by:
            continue
        same = all(_same(_answer(mutated, _with_alignment(subject, problem), mode), got) for problem, mode, got in answers)
        if not same or not _explains(mutated, subject, finding):
            continue
        if further is None:  # only few failures have a candidate at all
            further = [(problem, got) for problem in others if (got := _answer(subject, problem, PLAIN)) is not None]
        share = sum(_same(_answer(mutated, _with_alignment(subject, problem), PLAIN), got) for problem, got in further) / max(len(further), 1)
        if share > most:
            best, most = Diagnosis(name, variant, mutation.description, mutation.reported_in), share
    return best


def _with_alignment(subject: Subject, problem: AnyProblem) -> AnyProblem:
    """The problem with the subject's causal alignment made explicit, since mutated implementations align bottom-right."""
    top_left = subject.conventions.corner == "top-left" and problem.query_offset is None
    return problem.replace(query_offset=0) if top_left else problem


def _mutated_subjects(subject: Subject) -> Iterator[tuple[str, Mutation, str, Subject]]:
    for name, mutation in mutations(subject.level).items():
        if mutation.detected_by:
            for variant, mutated in mutation.subjects().items():
                yield name, mutation, variant, mutated


def _explains(mutated: Subject, subject: Subject, finding: Finding | None) -> bool:
    """Whether a mutation gives the very number that was found, and not one closer to the expected one.

    Of a number that is correct up to rounding, every mutation that has no effect there gives the same.
    """
    if finding is None or finding.got is None or finding.expected is None or finding.got.shape != finding.expected.shape:
        return True
    answer = _answer(mutated, _with_alignment(subject, finding.problem), finding.mode)
    if answer is None:
        return False
    weights = answer.weights if finding.mode.weights else None
    tensors = [x for x in (answer.output, weights, *answer.gradients.values()) if x is not None and x.shape == finding.got.shape]
    if not tensors:
        return _is_wrong(answer, subject, finding)
    got, expected = float(finding.got[finding.where]), float(finding.expected[finding.where])
    near = abs(got - expected) / 2
    numbers = [float(x.detach()[finding.where]) for x in tensors]
    return any(abs(number - got) <= near or number == got or not (isfinite(number) or isfinite(got)) for number in numbers)


def _is_wrong(answer: Answer, subject: Subject, finding: Finding) -> bool:
    """Whether an answer is wrong on the problem of the finding: a mutation without effect there explains nothing."""
    expected, allowed = finding.problem.expected(subject.conventions), tolerance(subject, finding.problem)
    if mismatch(finding.problem, answer.output, expected.output, allowed.output, "") is not None:
        return True
    if not finding.mode.weights or answer.weights is None or expected.weights is None or answer.weights.shape != expected.weights.shape:
        return False
    return mismatch(finding.problem, answer.weights, expected.weights, allowed.weights, "") is not None


def _answer(subject: Subject, problem: AnyProblem, mode: CallMode) -> Answer | None:
    try:
        return subject.attend(problem, mode)
    except Exception:  # noqa: BLE001 - a mutated implementation may raise anything; then it gives no numbers
        return None


def _same(one: Answer | None, other: Answer | None) -> bool:
    if one is None or other is None or not _close(one.output, other.output):
        return False
    if one.weights is not None and other.weights is not None and not _close(one.weights, other.weights):
        return False
    return all(_close(one.gradients[name], other.gradients[name]) for name in set(one.gradients) & set(other.gradients))


def _close(one: Tensor, other: Tensor) -> bool:
    return roughly_equal(one, other.detach().cpu().double())
