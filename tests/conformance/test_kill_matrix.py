"""Every attack is caught by those whom it names; what is no fault, and our own engine, is accused by nobody."""

import re

import pytest

from docs import generate
from headwise.catalog import entries
from headwise.conformance.kill_matrix import HONEST, Row, attack, everything
from headwise.conformance.mutations.mutation import Mutation
from headwise.errors import ArgumentError

ATTACKS = {name: entry for name, entry in entries("headwise.conformance.mutations").items() if isinstance(entry, Mutation | Mutation)}
INVARIANTS = entries("headwise.conformance.invariants")
CODES = [f"M{n:02}" for n in (*range(1, 15), *range(16, 19), *range(20, 25), *range(26, 37), *range(38, 70), 71, 73, 74, 76)]
LEFT_OUT = {"M15", "M19", "M25", "M37", "M70", "M72", "M75"}  # not in the catalogue


@pytest.fixture(scope="module")
def matrix():
    return everything()


def test_every_attack_is_caught_and_nobody_else_accused(matrix):
    assert matrix.complete, {f"{row.attack}: {row.told}": (row.missed, row.alarms) for row in matrix.wrong}


def test_it_holds_every_attack_every_control_and_our_own_engine(matrix):
    assert {row.attack for row in matrix.rows} == {*ATTACKS, HONEST}
    told = {(name, way) for name, entry in ATTACKS.items() if isinstance(entry, Mutation) for way in entry.told}
    several = {name for name, entry in ATTACKS.items() if isinstance(entry, Mutation) and len(entry.told) > 1}
    assert {(row.attack, row.told) for row in matrix.rows if row.attack in several} == {(name, way) for name, way in told if name in several}
    assert [row.told for row in matrix.rows if row.attack == HONEST] == [
        "hw.attend",
        "hw.attend, native",
        "hw.attend, reference",
        "hw.attend, stream",
        "hw.MultiHeadAttention",
        "steps",
        "layer steps",
    ]


def test_every_invariant_is_there_and_catches_somebody(matrix):
    codes = {*(f"I{n:02}" for n in range(1, 23)), *(f"N{n}" for n in range(1, 14)), *(f"M{n}" for n in range(1, 6))}
    assert set(matrix.codes.values()) == codes
    assert {entry.code for entry in INVARIANTS.values()} == codes
    idle = [name for name in matrix.codes if not any(name in row.caught for row in matrix.rows)]
    assert idle == []


def test_every_fault_of_the_catalogue_has_an_attack():
    have = {entry.code for entry in ATTACKS.values() if isinstance(entry, Mutation)}
    assert {code for code in CODES if code not in LEFT_OUT} <= have
    assert {"E1", "E2", "E4", "E6", "E8", "E10"} <= have


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_names_invariants_that_exist(name):
    entry = ATTACKS[name]
    assert set(entry.detected_by) <= set(INVARIANTS)
    if isinstance(entry, Mutation):
        assert entry.detected_by or entry.code.startswith("E")
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in entry.seen_in)


def test_the_page_is_current(matrix):
    written = (generate.HERE / "kill-matrix.md").read_text()
    assert written == generate.kill_matrix_page(), "docs/kill-matrix.md is old. Run make docs."


def test_a_lie_that_nobody_catches_is_shown_as_such(matrix):
    missed = Row("some_lie", "", "M99", "x", ("rows_sum_to_one",), ("rows_sum_to_one", "explicit_scale"))
    accused = Row("some_truth", "", "E99", "x", (), ("rows_sum_to_one",), {"rows_sum_to_one": "it was"})
    assert not missed.as_it_should_be
    assert not accused.as_it_should_be
    assert [matrix.mark(missed, name) for name in ("rows_sum_to_one", "explicit_scale", "dropout_only_in_training")] == ["!", "·", " "]
    assert matrix.mark(accused, "rows_sum_to_one") == "!"


def test_an_attack_that_does_not_exist_is_refused():
    with pytest.raises(ArgumentError, match=r"attack must be one of .*tie_heads.*, got 'tie_head'\. Choose one of them\."):
        attack(["tie_head"])
