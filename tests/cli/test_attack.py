import json

import pytest

from headwise.cli.app import main
from headwise.conformance.five_moves import five_moves
from headwise.conformance.mutations.mutation import exact_mutations


def attack(capsys, *words):
    code = main(["attack", *words])
    found = capsys.readouterr()
    return code, found.out, found.err


def rows(out):
    """By move, the words of its verdicts before and after."""
    lines = [line.split() for line in out.splitlines() if line[:2] in ("M1", "M2", "M3", "M4", "M5")]
    return {line[0]: (line[-3], line[-1]) for line in lines}


@pytest.mark.parametrize("heads", [2, 4])
def test_tying_heads_fells_independence_and_nothing_else(capsys, heads):
    code, out, err = attack(capsys, "--heads", str(heads))
    assert (code, err) == (0, "")
    assert rows(out) == {**{f"M{move}": ("holds", "holds") for move in (1, 2, 3, 4)}, "M5": ("holds", "falls")}
    assert "The witness, by another route, is red: M5." in out


def test_with_one_head_there_is_nothing_to_tie(capsys):
    code, out, _ = attack(capsys, "--heads", "1")
    assert code == 0
    assert rows(out)["M5"] == ("vacuous", "vacuous")
    assert "The attack does no harm here: it is blind when there is one head." in out
    assert "agrees: nothing falls" in out


def test_patterns_are_those_of_the_example(capsys):
    _, out, _ = attack(capsys, "tie_heads")
    for told in (None, "tie_heads"):
        for row in five_moves(2, attack=told).matrices["weights"][1]:
            assert "  ".join(f"{weight:.2f}" for weight in row) in out


def test_json_is_all_of_both_walks(capsys):
    found = json.loads(attack(capsys, "tie_heads", "--heads", "4", "--json")[1])
    assert found["before"] == json.loads(json.dumps(five_moves(4).as_dict()))
    assert found["after"] == json.loads(json.dumps(five_moves(4, attack="tie_heads").as_dict()))
    assert found["harmless"] is False


@pytest.mark.parametrize("name", exact_mutations())
def test_every_attack_is_caught(capsys, name):
    code, out, _ = attack(capsys, name, "--heads", "2")
    assert code == 0
    assert exact_mutations()[name].lie in " ".join(out.split())
    assert "is red" in out


def test_an_attack_that_nothing_catches_is_exit_code_1(capsys, monkeypatch):
    """As if M5 had not been written: the lie changes the output, and every invariant still holds."""
    from headwise.conformance import five_moves as module

    honest = module.exact_invariants
    monkeypatch.setattr(module, "invariants", lambda: {name: entry for name, entry in honest().items() if entry.code != "M5"})
    monkeypatch.setattr(module, "witness", lambda walked: {})
    assert attack(capsys, "tie_heads")[0] == 1


def test_the_moves_alone(capsys):
    code, out, _ = attack(capsys, "--moves")
    assert code == 0
    assert rows(out)["M5"] == ("holds", "falls")
    assert "caught by all whom they name" not in out


def test_the_matrix_alone_and_both(capsys, monkeypatch):
    """A small matrix in place of the whole, which has a test of its own."""
    from headwise.conformance import kill_matrix

    small = kill_matrix.attack(["nan_replaced_by_zero"])
    told: list[str] = []

    def everything(tell):
        tell("nan_replaced_by_zero")
        told.append("told")
        return small

    monkeypatch.setattr(kill_matrix, "everything", everything)
    code, out, _ = attack(capsys, "--matrix")
    assert (code, rows(out), told) == (0, {}, ["told"])
    assert "1 of 1 caught by all whom they name." in out
    code, out, _ = attack(capsys)
    assert code == 0
    assert rows(out)["M5"] == ("holds", "falls")
    assert "1 of 1 caught by all whom they name." in out


def test_one_lie_and_what_each_invariant_saw(capsys):
    code, out, _ = attack(capsys, "nan_replaced_by_zero")
    assert code == 0
    assert "N10 nan_propagation" in " ".join(out.split())
    assert "1 of 1 caught by all whom they name." in out


def test_json_of_one_lie(capsys):
    found = json.loads(attack(capsys, "nan_replaced_by_zero", "--json")[1])
    assert found["complete"] is True
    assert list(found["rows"][0]["caught"]) == ["nan_propagation"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--heads", "3"], "heads must be 1, 2 or 4, which divide the 4 features of the example, got 3. Choose one of them."),
        (["tie_head"], "attack must be one of "),
        (["--moves", "--matrix"], "moves and matrix must not be given together, got both. Leave both out to see the one and then the other."),
        (["nan_replaced_by_zero", "--moves"], "moves must come with an attack on the example, got 'nan_replaced_by_zero'. Choose one of "),
        (["nan_replaced_by_zero", "--heads", "2"], "heads must be left out for 'nan_replaced_by_zero', got 2. Only attacks on the example have heads: "),
    ],
)
def test_what_does_not_exist_is_refused(capsys, words, said):
    code, out, err = attack(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
