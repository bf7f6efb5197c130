"""Falls made into failures: bad manners shrink too, one fault is told once, and the one to blame is shown."""

import torch

from headwise.attention.attend import attend
from headwise.conformance.adapters.attention_call import CallSubject
from headwise.conformance.answer import CallMode
from headwise.conformance.cases import Case
from headwise.conformance.check import check
from headwise.conformance.conventions import Conventions

OURS = Conventions(weights="never")


def said(problem):
    return attend(problem.query, problem.key, problem.value, causal=problem.causal, mask=problem.mask, scale=problem.scale).output


def masks_raise_on_a_path(problem, mode):
    if mode.path == "narrow" and problem.mask is not None and problem.query.shape[2] > 1:
        raise RuntimeError("no room for 3 rows of a mask.")
    return said(problem)


def gradients_raise(problem, mode):
    if problem.causal and problem.query.requires_grad:
        raise RuntimeError("no way back.")
    return said(problem)


def subject(compute, *words, paths=(), dtypes=(torch.float32,)):
    return CallSubject("somebody's", compute, frozenset(words), OURS, dtypes, paths=paths)


def run(test: str, stranger: CallSubject) -> str:
    """What the pasted test says of a subject; "" where it holds."""
    names: dict = {}
    exec(
        compile(test.replace("'headwise.conformance.adapters.attention_call:CallSubject'", "SUBJECT").replace('"SUBJECT"', "SUBJECT"), "pasted", "exec"), names
    )
    names["SUBJECT"] = stranger
    try:
        next(function for name, function in names.items() if name.startswith("test_"))()
    except AssertionError as error:
        return str(error)
    return ""


def test_what_raises_on_a_path_shrinks_and_its_test_asks_by_that_path(plain):
    stranger = subject(masks_raise_on_a_path, "mask", paths=("narrow",))
    (failure,) = check(stranger).failures
    assert failure.invariant == "raises" and failure.finding.mode.path == "narrow"
    assert failure.finding.problem.shape == (1, 1, 2, 1)
    assert "mode=CallMode(path='narrow')" in failure.test and "from headwise.conformance.answer import CallMode" in failure.test
    assert "no room for 3 rows of a mask" in run(failure.test, stranger)
    assert run(failure.test, subject(lambda problem, mode: said(problem), "mask", paths=("narrow",))) == ""


def test_what_raises_for_gradients_is_asked_for_gradients(plain):
    stranger = subject(gradients_raise, "causal", "gradients")
    (failure,) = check(stranger).failures
    assert failure.invariant == "raises" and failure.finding.problem.shape == (1, 1, 1, 1)
    assert failure.finding.problem.options == {"causal": True}
    assert "no way back" in run(failure.test, stranger)


def test_a_case_of_manners_holds_where_the_subject_answers():
    problem = check(subject(gradients_raise, "causal", "gradients")).failures[0].finding.problem
    Case("raises", problem).check(subject(gradients_raise, "causal", "gradients"))
    Case("raises", problem, mode=CallMode(upstream=torch.ones(3))).check(subject(lambda asked, mode: said(asked), "causal", "gradients"))


def test_a_fault_that_many_laws_see_is_told_once_from_its_plainest_input(plain):
    def backwards(problem, mode):
        """Causal, it looks ahead; a mask beside it makes no difference."""
        if not problem.causal:
            return said(problem)
        reach = torch.ones(problem.query.shape[2], problem.key.shape[2], dtype=torch.bool).triu(problem.key.shape[2] - problem.query.shape[2])
        mask = reach if problem.mask is None else problem.mask & reach
        return attend(problem.query, problem.key, problem.value, mask=mask, scale=problem.scale).output

    report = check(subject(backwards, "causal", "mask", "scale"))
    assert {frozenset(failure.finding.problem.options) for failure in report.failures} == {frozenset({"causal"})}, str(report)
    assert len(report.failures) <= 2, "what a NaN shows may stand beside it"
    assert max(len(failure.also) for failure in report.failures) > 3


def test_where_another_path_is_right_the_usual_one_is_shown(plain):
    def usual_is_wrong(problem, mode):
        found = said(problem)
        return found if mode.path else found * torch.where(torch.tensor(problem.causal), 1.5, 1.0)

    (failure,) = check(subject(usual_is_wrong, "causal", paths=("other",))).failures
    assert failure.finding.mode.path == ""
    assert "code_paths_agree" in {failure.invariant, *failure.also}
    place = failure.finding.where
    assert abs(float(failure.finding.got[place])) > abs(float(failure.finding.expected[place]))


def rough(problem, mode):
    """float64 comes back as float64, worked out in float32."""
    narrow = {name: getattr(problem, name).float() for name in ("query", "key", "value")}
    return attend(**narrow, causal=problem.causal).output.to(problem.query.dtype)


def test_float64_that_is_worked_out_in_float32_is_one_failure_and_like_no_attack(plain):
    report = check(subject(rough, "causal", "gradients", dtypes=(torch.float32, torch.float64)))
    (failure,) = report.failures
    assert failure.finding.problem.query.dtype == torch.float64
    assert failure.diagnosis is None and "gradients_are_correct" in report.problems_passed


def test_gradients_of_such_a_subject_are_judged_all_the_same(plain):
    def slope(problem, mode):
        output = rough(problem, mode)
        return output + 0.1 * (problem.query.sum() - problem.query.detach().sum()).to(output.dtype)

    report = check(subject(slope, "gradients", dtypes=(torch.float32, torch.float64)), shrinking=1.0)
    assert "gradients_are_correct" in {failure.invariant for failure in report.failures}, str(report)
