import json

import pytest

from headwise.cli.app import main
from headwise.conformance.five_moves import five_moves
from headwise.conformance.mutations.mutation import mutations


def attack(capsys, *words):
    code = main(["attack", *words])
    found = capsys.readouterr()
    return code, found.out, found.err


def rows(out):
    """The verdicts of each move before and after."""
    lines = [line.split() for line in out.splitlines() if line[:2] in ("M1", "M2", "M3", "M4", "M5")]
    return {line[0]: (line[-3], line[-1]) for line in lines}


@pytest.mark.parametrize("heads", [2, 4])
def test_tied_heads_break_independence_and_nothing_else(capsys, heads):
    code, out, err = attack(capsys, "--heads", str(heads))
    assert (code, err) == (0, "")
    assert rows(out) == {**{f"M{move}": ("holds", "holds") for move in (1, 2, 3, 4)}, "M5": ("holds", "falls")}
    assert "The witness, by another route, is red: M5." in out


def test_with_one_head_there_is_nothing_to_tie(capsys):
    code, out, _ = attack(capsys, "--heads", "1")
    assert code == 0
    assert rows(out)["M5"] == ("vacuous", "vacuous")
    assert "The mutation changes nothing here: it is harmless when there is one head." in out
    assert "agrees: nothing falls" in out


def test_patterns_are_those_of_the_example(capsys):
    _, out, _ = attack(capsys, "tie_heads")
    for name in (None, "tie_heads"):
        for row in five_moves(2, attack=name).matrices["weights"][1]:
            assert "  ".join(f"{weight:.2f}" for weight in row) in out


def test_json_contains_both_results(capsys):
    found = json.loads(attack(capsys, "tie_heads", "--heads", "4", "--json")[1])
    assert found["before"] == json.loads(json.dumps(five_moves(4).as_dict()))
    assert found["after"] == json.loads(json.dumps(five_moves(4, attack="tie_heads").as_dict()))
    assert found["harmless"] is False


@pytest.mark.parametrize("name", mutations("exact"))
def test_every_mutation_of_the_example_is_detected(capsys, name):
    code, out, _ = attack(capsys, name, "--heads", "2")
    assert code == 0
    assert mutations("exact")[name].description in " ".join(out.split())
    assert "is red" in out


def test_a_mutation_that_nothing_detects_is_exit_code_1(capsys, monkeypatch):
    """Without M5, the mutation changes the output while every other invariant holds."""
    from headwise.conformance import five_moves as module
    from headwise.conformance.invariants import invariant as registry

    all_invariants = module.invariants
    for place in (module, registry):
        monkeypatch.setattr(place, "invariants", lambda *levels: {name: entry for name, entry in all_invariants(*levels).items() if entry.code != "M5"})
    monkeypatch.setattr(module, "witness", lambda *arguments: {})
    assert attack(capsys, "tie_heads")[0] == 1


def test_the_moves_alone(capsys):
    code, out, _ = attack(capsys, "--moves")
    assert code == 0
    assert rows(out)["M5"] == ("holds", "falls")
    assert "mutations detected by every required invariant" not in out


def test_the_matrix_alone_and_both(capsys, monkeypatch):
    """A small matrix instead of the full one, which has its own test."""
    from headwise.conformance import kill_matrix

    small = kill_matrix.attack(["nan_replaced_by_zero"])
    called: list[str] = []

    def full_matrix(progress):
        progress("nan_replaced_by_zero", 1, 1)
        called.append("full")
        return small

    monkeypatch.setattr(kill_matrix, "full_matrix", full_matrix)
    code, out, _ = attack(capsys, "--matrix")
    assert (code, rows(out), called) == (0, {}, ["full"])
    assert "1 of 1 mutations detected by every required invariant." in out
    code, out, _ = attack(capsys)
    assert code == 0
    assert rows(out)["M5"] == ("holds", "falls")
    assert "1 of 1 mutations detected by every required invariant." in out


def test_one_mutation_and_the_reports_of_the_invariants(capsys):
    code, out, _ = attack(capsys, "nan_replaced_by_zero")
    assert code == 0
    assert "N10 nan_propagation" in " ".join(out.split())
    assert "1 of 1 mutations detected by every required invariant." in out


def test_json_of_one_mutation(capsys):
    found = json.loads(attack(capsys, "nan_replaced_by_zero", "--json")[1])
    assert found["complete"] is True
    assert list(found["rows"][0]["caught"]) == ["nan_propagation"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--heads", "3"], "heads must be 1, 2 or 4, which divide the 4 features of the example, got 3. Choose one of them."),
        (["tie_head"], "attack must be one of "),
        (["--moves", "--matrix"], "moves and matrix must not be given together, got both. Leave both out to see the moves and then the matrix."),
        (["nan_replaced_by_zero", "--moves"], "moves must come with a mutation of the example, got 'nan_replaced_by_zero'. Choose one of "),
        (["nan_replaced_by_zero", "--heads", "2"], "heads must be left out for 'nan_replaced_by_zero', got 2. Only mutations of the example take heads: "),
    ],
)
def test_what_does_not_exist_is_refused(capsys, words, message):
    code, out, err = attack(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
