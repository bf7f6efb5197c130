"""Every mutation is detected by the invariants that it requires; controls and headwise's own implementation fail none."""

import re

import pytest

from docs import generate
from headwise.conformance.invariants.invariant import invariants
from headwise.conformance.kill_matrix import UNMUTATED, Row, attack, full_matrix
from headwise.conformance.mutations.mutation import mutations
from headwise.errors import ArgumentError

MUTATIONS = mutations()
INVARIANTS = invariants()
CODES = [f"M{n:02}" for n in (*range(1, 15), *range(16, 19), *range(20, 25), *range(26, 37), *range(38, 70), 71, 73, 74, 76)]
LEFT_OUT = {"M15", "M19", "M25", "M37", "M70", "M72", "M75"}  # not in the list of faults


@pytest.fixture(scope="module")
def matrix():
    return full_matrix()


def test_every_mutation_is_detected_without_false_alarms(matrix):
    assert matrix.complete, {f"{row.mutation}: {row.variant}": (row.missed, row.false_alarms) for row in matrix.unexpected}


def test_it_holds_every_mutation_every_control_and_our_own_implementation(matrix):
    assert {row.mutation for row in matrix.rows} == {*MUTATIONS, UNMUTATED}
    several = {name: entry for name, entry in MUTATIONS.items() if len(entry.variants) > 1}
    variants = {(name, variant) for name, entry in several.items() for variant in entry.variants}
    assert {(row.mutation, row.variant) for row in matrix.rows if row.mutation in several} == variants
    assert [row.variant for row in matrix.rows if row.mutation == UNMUTATED] == [
        "hw.attend",
        "hw.attend, native",
        "hw.attend, reference",
        "hw.attend, stream",
        "hw.MultiHeadAttention",
        "steps",
        "layer steps",
    ]


def test_every_invariant_is_there_and_detects_a_mutation(matrix):
    codes = {*(f"I{n:02}" for n in range(1, 23)), *(f"N{n}" for n in range(1, 14)), *(f"M{n}" for n in range(1, 6))}
    assert set(matrix.codes.values()) == codes
    assert {entry.code for entry in INVARIANTS.values()} == codes
    idle = [name for name in matrix.codes if not any(name in row.detected for row in matrix.rows)]
    assert idle == []


def test_every_fault_of_the_list_has_a_mutation():
    have = {entry.code for entry in MUTATIONS.values()}
    assert {code for code in CODES if code not in LEFT_OUT} <= have
    assert {"E1", "E2", "E4", "E6", "E8", "E10"} <= have


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_requires_invariants_that_exist(name):
    entry = MUTATIONS[name]
    assert set(entry.detected_by) <= set(INVARIANTS)
    assert entry.detected_by or entry.code.startswith("E")
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in entry.reported_in)


def test_the_page_is_current(matrix):
    written = (generate.HERE / "kill-matrix.md").read_text()
    assert written == generate.kill_matrix_page(), "docs/kill-matrix.md is old. Run make docs."


def test_a_mutation_that_is_missed_and_a_false_alarm_are_shown_as_such(matrix):
    missed = Row("some_fault", "", "M99", "x", ("rows_sum_to_one",), ("rows_sum_to_one", "explicit_scale"))
    alarm = Row("some_control", "", "E99", "x", (), ("rows_sum_to_one",), {"rows_sum_to_one": "it was"})
    assert not missed.as_expected
    assert not alarm.as_expected
    assert [matrix.mark(missed, name) for name in ("rows_sum_to_one", "explicit_scale", "dropout_only_in_training")] == ["!", "·", " "]
    assert matrix.mark(alarm, "rows_sum_to_one") == "!"


def test_a_mutation_that_does_not_exist_is_refused():
    with pytest.raises(ArgumentError, match=r"attack must be one of .*tie_heads.*, got 'tie_head'\. Choose one of them\."):
        attack(["tie_head"])


def test_the_old_name_of_a_mutation_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="'nan_is_swept_away' is deprecated and will be removed in the next release. Use 'nan_replaced_by_zero'."):
        found = attack(["nan_is_swept_away"])
    (row,) = found.rows
    assert row.mutation == "nan_replaced_by_zero" and "nan_propagation" in row.detected
    with pytest.warns(DeprecationWarning, match=r"Row\.caught is deprecated"):
        assert row.caught == row.detected
