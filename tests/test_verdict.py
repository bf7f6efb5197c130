"""Verdicts: by name in every report, and the names and positions of the last release, each with a warning."""

import copy
import json
import pickle

import pytest

from headwise.errors import ArgumentError
from headwise.verdict import Verdict, Verdicts, WorstCase

ROWS = Verdict("rows", "rows add up to 1", True, 1e-7, 1e-6, "row 3")
OUTPUT = Verdict("output", "weights times values are the output", None)
MODEL = Verdict("model", "the outputs are the model's", False, 2.0, 1e-6, "logits")


def test_verdicts_are_found_by_name_in_the_order_of_the_checks():
    found = Verdicts([ROWS, MODEL, OUTPUT])
    assert list(found) == ["rows", "model", "output"]
    assert found["model"] is MODEL and len(found) == 3 and "rows" in found and "other" not in found
    assert dict(found) == {"rows": ROWS, "model": MODEL, "output": OUTPUT}
    with pytest.raises(KeyError, match="other"):
        found["other"]


def test_a_check_that_could_not_be_made_is_no_failure():
    assert Verdicts([ROWS, OUTPUT]).passed and not Verdicts([ROWS, OUTPUT, MODEL]).passed


def test_two_verdicts_of_one_name_are_refused():
    with pytest.raises(ArgumentError, match="Two verdicts have the name 'rows'. Give each check a name of its own"):
        Verdicts([ROWS, ROWS])


def test_verdicts_are_values():
    found = Verdicts([ROWS, OUTPUT])
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found != Verdicts([ROWS])
    assert hash(found) == hash(Verdicts([ROWS, OUTPUT]))
    assert eval(repr(found)) == found


def test_a_verdict_is_a_sentence():
    assert str(Verdicts([ROWS, OUTPUT, MODEL])).splitlines() == [
        "passed: rows add up to 1 (off by 1e-07, rounding allows 1e-06)",
        "not checked: weights times values are the output",
        "FAILED: the outputs are the model's (off by 2, rounding allows 1e-06 at logits)",
    ]


def test_a_position_still_finds_a_verdict_with_a_warning():
    found = Verdicts([ROWS, OUTPUT, MODEL])
    for position in (0, 1, -1):
        with pytest.warns(DeprecationWarning, match=r"verdicts\[-?\d\] is deprecated .* Use verdicts\['(rows|output|model)'\]"):
            assert found[position] is [ROWS, OUTPUT, MODEL][position]
    with pytest.raises(IndexError):
        found[3]


def test_holds_is_passed_with_a_warning():
    for verdict in (ROWS, OUTPUT, MODEL):
        with pytest.warns(DeprecationWarning, match=r"Verdict.holds is deprecated .* Use passed"):
            assert verdict.holds is verdict.passed


def test_verdicts_are_written_under_both_names_and_read_under_either():
    for verdict in (ROWS, OUTPUT, MODEL):
        written = json.loads(json.dumps(verdict.to_json()))
        assert written["passed"] == written["holds"] == verdict.passed
        before = {name: value for name, value in written.items() if name != "passed"}
        after = {name: value for name, value in written.items() if name != "holds"}
        assert Verdict.from_json(written) == Verdict.from_json(before) == Verdict.from_json(after) == verdict


def test_the_worst_case_is_the_error_that_exceeds_most_what_is_allowed():
    worst = WorstCase("rows", "rows add up to 1")
    assert worst.verdict() == Verdict("rows", "rows add up to 1: there is nothing to check", None)
    for residual, allowed, place in ((3e-7, 1e-6, "a"), (2e-9, 1e-9, "b"), (1e-3, 1.0, "c")):
        worst.add(residual, allowed, place)
    assert worst.verdict() == Verdict("rows", "rows add up to 1", False, 2e-9, 1e-9, "b")
    worst.add(float("nan"), 1.0, "d")
    assert worst.verdict().place == "d" and worst.verdict().passed is False
