"""`hw.check` finds what is wrong, and nothing where nothing is."""

import json
from xml.etree import ElementTree

import pytest
import torch

import headwise as hw
from headwise.attention.attend import attend
from headwise.conformance.adapters.headwise_attention import HeadwiseAttend
from headwise.conformance.check import DETECT_MOST, check
from headwise.conformance.invariants.invariant import invariants
from tests.conformance.check import strangers


@pytest.mark.parametrize("name", strangers.WRONG)
def test_a_fault_that_is_in_no_file_is_found(plain, name):
    report = check(strangers.WRONG[name], level="full", conventions={"corner": "bottom-right"}, shrinking=0, stop_at_first=True)
    assert not report.passed, str(report)
    assert any(failure.severity == "wrong" for failure in report.failures)


@pytest.mark.parametrize("name", strangers.HONEST)
def test_the_honest_but_unusual_pass(plain, name):
    report = check(strangers.HONEST[name])
    assert report.passed, str(report)


@pytest.mark.parametrize("backend", ["reference", "stream", "native"])
def test_our_backends_pass(plain, backend):
    report = check(HeadwiseAttend(backend))
    assert report.passed, str(report)


def test_a_failure_is_small_named_and_a_test_that_fails(plain):
    def tiled(query, key, value):
        """Grouped heads tiled instead of repeated."""
        times = query.shape[1] // key.shape[1]
        return strangers.correct(query, key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1))

    report = check(tiled, level="full")
    failure = report.failures[0]
    assert failure.finding.problem.shape == (1, 4, 1, 1) or failure.finding.problem.shape == (1, 4, 1, 2)
    assert failure.finding.problem.key.shape[1] == 2
    assert failure.diagnosis is not None
    assert "til" in failure.diagnosis.mutation or "turn" in failure.diagnosis.mutation
    assert failure.smallest.startswith("Nothing can be removed")
    assert "def test_" in failure.test


def test_the_pasted_test_fails_on_the_fault_and_holds_on_the_right(plain):
    report = check("tests.conformance.check.strangers:wrong_scale", conventions={})
    source = report.failures[0].test
    with pytest.raises(AssertionError):
        _run(source)
    _run(source.replace("wrong_scale", "correct"))


def _run(source: str) -> None:
    names: dict = {}
    exec(compile(source, "pasted", "exec"), names)
    next(function for name, function in names.items() if name.startswith("test_"))()


@pytest.mark.parametrize(
    ("subject", "law", "why"),
    [
        (strangers.raises, "raises", "It raises KeyError: 'no rule for one query' at strangers.py:"),
        (strangers.wrong_shape, "shape", "The output is "),
        (strangers.changes_inputs, "changes_inputs", "The tensors that were passed in hold other numbers after the call."),
        (strangers.returns_nothing, "shape", "It returned NoneType, where a float tensor or a pair of output and weights is expected."),
    ],
)
def test_bad_manners_are_reported_and_the_rest_goes_on(plain, subject, law, why):
    report = check(subject)
    assert not report.passed
    (failure,) = [failure for failure in report.failures if failure.invariant == law]
    assert why in failure.finding.why


def test_what_differs_from_call_to_call_is_found(plain):
    report = check(strangers.forgets_its_seed)
    assert "determinism" in {law for failure in report.failures for law in (failure.invariant, *failure.also)}


def test_printing_is_noted_and_no_failure(plain, capsys):
    report = check(strangers.prints)
    assert report.passed
    assert [finding.invariant for finding in report.findings] == ["prints"]
    assert capsys.readouterr().out == ""


def test_a_call_that_hangs_is_ended_and_the_rest_goes_on(plain):
    report = check(strangers.hangs, timeout=1.0)
    (failure,) = [failure for failure in report.failures if failure.invariant == "hangs"]
    assert failure.finding.why == "The call did not return within 1 s."
    assert report.problems_passed


def test_a_call_that_dies_is_reported_and_the_rest_goes_on(plain):
    report = check(strangers.dies, timeout=20.0)
    (failure,) = [failure for failure in report.failures if failure.invariant == "crashes"]
    assert "signal 6" in failure.finding.why
    assert report.problems_passed


@pytest.mark.parametrize(
    ("subject", "manner", "why", "held"),
    [
        (strangers.hangs_at_once, "hangs", "The call did not return within 5 s.", False),
        (strangers.hangs_without_keys, "hangs", "The call did not return within 5 s.", True),
        (strangers.dies_under_a_mask, "crashes", "The process ended with signal 6 during the call.", True),
    ],
)
def test_who_hangs_or_dies_at_the_first_questions_is_reported_and_the_rest_goes_on(plain, subject, manner, why, held):
    report = check(subject, timeout=5.0)
    (failure,) = [failure for failure in report.failures if failure.invariant == manner]
    assert failure.finding.why == why
    assert failure.finding.problem is not None
    assert not report.passed
    assert bool(report.problems_passed) is held


def test_who_leaves_the_process_at_its_import_is_refused(plain):
    said = r"The process that imports 'tests\.conformance\.check\.leaving:attend' crashes before it is called\. The process ended with exit code 3"
    with pytest.raises(hw.HeadwiseError, match=said):
        check("tests.conformance.check.leaving:attend", timeout=20.0)


def test_conventions_are_probed_and_no_failure(plain):
    found = {stated.name: (stated.value, stated.source) for stated in check(strangers.tokens_first).conventions}
    assert found["layout"] == ("B T H D", "probed")
    assert found["corner"] == ("bottom-right", "probed")
    assert {s.name: s.value for s in check(strangers.masks_from_lengths).conventions}["mask_polarity"] == "hide"


def test_packed_texts(plain):
    report = check(strangers.packed)
    assert report.passed, str(report)
    assert {stated.name: stated.value for stated in report.conventions}["corner"] == "bottom-right"


def test_what_is_declared_is_held_against_the_subject(plain):
    report = check(strangers.tokens_first, conventions={"corner": "top-left"})
    assert not report.passed
    assert "causal_alignment" in {law for failure in report.failures for law in (failure.invariant, *failure.also)}


def test_arguments_that_a_signature_lacks_are_not_tested(plain):
    report = check(strangers.tokens_first)
    assert report.not_tested["window"] == "its signature has no such argument"


def test_a_module_by_its_maps(plain):
    report = check(strangers.SelfAttention())
    assert report.passed, str(report)
    assert {s.name: s.value for s in report.conventions}["qkv_packing"] == "q k v"


def test_a_module_that_is_always_causal_and_packs_by_head(plain):
    report = check(strangers.ByHead())
    assert report.passed, str(report)
    assert {s.name: s.value for s in report.conventions}["qkv_packing"] == "by head"


def test_a_module_with_grouped_heads_and_a_context(plain):
    report = check(strangers.Grouped())
    assert report.passed, str(report)


def test_heads_merged_by_a_reshape_are_named(plain):
    report = check(strangers.MergedWrongly())
    assert report.failures[0].diagnosis.mutation == "merge_heads_without_transpose"


def test_a_report_as_json_xml_and_html(plain):
    report = check(strangers.wrong_shape)
    assert json.loads(report.to_json())["passed"] is False
    suite = ElementTree.fromstring(report.to_junit())
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) > 0
    page = report.to_html()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert "http" not in page
    assert report.failures[0].statement in page


def test_cases_for_ones_own_runner(plain):
    cases = hw.cases()
    assert len({case.__name__ for case in cases}) == len(cases) > 100
    for case in cases[::40]:
        case.check(attend)
    (wrong,) = [case for case in cases if case.__name__ == "default_scale-0"]
    with pytest.raises(AssertionError, match=r"Got .*, expected"):
        wrong.check(strangers.wrong_scale)


def test_wrong_arguments(plain):
    with pytest.raises(hw.HeadwiseError, match="level must be 'quick' or 'full', got 'slow'"):
        check(attend, level="slow")
    with pytest.raises(hw.HeadwiseError, match="timeout must be positive, got 0"):
        check(attend, timeout=0)
    with pytest.raises(hw.HeadwiseError, match="With a timeout the subject must be importable"):
        check(lambda q, k, v: q, timeout=1)
    with pytest.raises(hw.HeadwiseError, match="conventions must be among corner"):
        check(attend, conventions={"corners": "top-left"})
    with pytest.raises(hw.HeadwiseError, match="convention corner must be one of 'bottom-right', 'top-left', got 'left'"):
        check(attend, conventions={"corner": "left"})


def test_only_one_dtype(plain):
    report = check(strangers.WRONG["only bfloat16"], dtype=torch.float32)
    assert report.passed, str(report)


def test_a_suite_of_junit_has_what_held_what_fell_and_what_is_a_convention(plain):
    report = check(strangers.prints)
    suite = ElementTree.fromstring(report.to_junit())
    by_name = {case.get("name"): case for case in suite.findall("testcase")}
    assert suite.tag == "testsuite" and suite.get("name") == report.subject and float(suite.get("time")) > 0
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert int(suite.get("tests")) == len(by_name) and int(suite.get("skipped")) == len(suite.findall("testcase/skipped")) == len(report.not_tested)
    assert all(len(by_name[law]) == 0 for law in report.problems_passed)
    assert len(by_name["prints"]) == 0, "a convention is a case that passes"
    assert by_name["window"].find("skipped").get("message") == "its signature has no such argument"
    suite = ElementTree.fromstring(check(strangers.masks_from_lengths).to_junit())
    assert {one.get("name"): one.get("value") for one in suite.findall("properties/property")}["convention.mask_polarity"] == "hide"

    report = check(strangers.wrong_scale)
    suite = ElementTree.fromstring(report.to_junit())
    fallen = {case.get("name"): case.find("failure") for case in suite.findall("testcase") if case.find("failure") is not None}
    first = report.failures[0]
    assert int(suite.get("failures")) == len(fallen) and first.invariant in fallen and set(first.also) <= set(fallen)
    assert fallen[first.invariant].get("type") == "wrong" and fallen[first.invariant].get("message") == first.statement
    assert "def test_" in fallen[first.invariant].text
    assert set(report.problems_passed).isdisjoint(fallen)


def test_a_module_is_given_what_it_has_room_for_in_a_process_of_its_own_too(plain):
    near, far = check("tests.conformance.check.strangers:SelfAttention"), check("tests.conformance.check.strangers:SelfAttention", timeout=30.0)
    assert near.passed and far.passed, str(far)
    assert far.problems_passed == near.problems_passed


def test_the_time_for_shrinking_is_the_callers(plain):
    assert check(strangers.wrong_scale, shrinking=0.0).failures[0].smallest == "The smallest input found in the time available."
    with pytest.raises(hw.HeadwiseError, match="shrinking must not be negative, got -1"):
        check(attend, shrinking=-1)


def test_old_names_work_with_a_warning(plain):
    report = check(strangers.wrong_scale, shrinking=0.0)
    failure = report.failures[0]
    for old, new in (("law", "invariant"), ("likely", "diagnosis"), ("seen_in", "views")):
        with pytest.warns(DeprecationWarning, match=rf"Failure\.{old} is deprecated .* Use Failure\.{new}\."):
            assert getattr(failure, old) == getattr(failure, new)
    with pytest.warns(DeprecationWarning, match="Finding.right"):
        assert failure.finding.right is failure.finding.expected
    with pytest.warns(DeprecationWarning, match="Report.held"):
        assert report.held == report.problems_passed
    plain_report = report.to_plain()
    assert plain_report["held"] == plain_report["problems_passed"]
    assert plain_report["failures"][0]["law"] == plain_report["failures"][0]["invariant"]
    refused = pytest.raises(hw.HeadwiseError, match="level must be 'quick' or 'full', got 'slow'")
    with pytest.warns(DeprecationWarning, match=r"check\(told=\.\.\.\)"), refused:
        check(attend, level="slow", told=print)
    with pytest.warns(DeprecationWarning, match="check with level as a positional argument"), refused:
        check(attend, "slow")


def test_old_names_of_invariants_and_rules_of_cases_work_with_a_warning():
    with pytest.warns(DeprecationWarning, match="'any_real_scale' is deprecated .* Use 'explicit_scale'"):
        hw.Case("any_real_scale", hw.cases()[0].problem).check(attend)
    with pytest.warns(DeprecationWarning, match="'dies' is deprecated .* Use 'crashes'"):
        hw.Case("dies", hw.cases()[0].problem).check(attend)


def test_a_check_may_stop_at_the_first_fault():
    report = check(strangers.wrong_scale, stop_at_first=True)
    assert not report.passed
    assert len(report.failures) == 1
    assert report.calls < check(strangers.wrong_scale).calls
    assert "not reached: the check stopped at the first failure" in report.not_tested.values()


def test_a_check_of_what_is_right_does_not_stop():
    report, whole = check(attend, stop_at_first=True), check(attend)
    assert report.passed
    assert report.problems_passed == whole.problems_passed
    assert "not reached: the check stopped at the first failure" not in report.not_tested.values()


def test_the_invariants_that_are_tried_first_exist():
    assert set(DETECT_MOST) <= set(invariants("call", "layer"))
