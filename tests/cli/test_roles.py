"""`headwise roles` prints, writes and draws what `hw.roles` says."""

import csv
import json

import pytest
from PIL import Image

import headwise as hw
from headwise.cli.app import main


def roles(capsys, checkpoint, *words):
    code = main(["roles", str(checkpoint), *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "lines"
    path.write_text("the cat sat on the mat because it was tired .\nthe dog was on the mat .\n" * 6)
    return path


@pytest.fixture(scope="module")
def right(checkpoint, texts):
    return hw.roles(hw.open_model(checkpoint), ["position", "self"], texts=texts.read_text().splitlines())


def test_json_is_what_the_dataset_says(capsys, checkpoint, texts, right):
    code, out, err = roles(capsys, checkpoint, "--role", "position", "--role", "self", "--lines", texts, "--json")
    said = json.loads(out)
    assert code == 0, err
    assert [task["task"] for task in said["tasks"]] == right.task.values.tolist()
    assert said["margin"] == 0.05
    for place, task in enumerate(said["tasks"]):
        assert (task["layer"], task["head"]) == (int(right.best_layer[place]), int(right.best_head[place]))
        assert task["held"] == pytest.approx(float(right.held[place]), abs=1e-6)
        assert task["found"] == bool(right.found[place])
        assert [score for row in said["scores"][task["task"]] for score in row] == pytest.approx(right.score[place].values.ravel().tolist(), abs=1e-6)
    assert len(said["heads"]) == 18
    assert {head["role"] for head in said["heads"]} == set(right.role.values.ravel())


def test_the_table_lists_what_is_played_and_what_is_not(capsys, checkpoint, texts, right, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = roles(capsys, checkpoint, "--lines", texts)
    assert code == 0
    assert "roles that a head plays:" in out
    assert "not asked: grammar: no sentences were given" in out
    place = int(right.held_gain.values.argmax())
    line = next(line for line in out.splitlines() if line.startswith(str(right.task.values[place])))
    assert f"{int(right.best_layer[place])}.{int(right.best_head[place])}" in line.split()
    assert f"{float(right.held[place]):.2f}" in line.split()


def test_csv_and_png(capsys, checkpoint, texts, right, tmp_path):
    words = ("--role", "position", "--role", "self", "--lines", texts, "--csv", tmp_path / "a.csv", "--png", tmp_path / "a.png", "--task", "self: itself")
    code, _, err = roles(capsys, checkpoint, *words)
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert code == 0, err
    assert [row["task"] for row in rows] == right.task.values.tolist()
    assert float(rows[0]["held"]) == pytest.approx(float(right.held[0]), abs=1e-6)
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] > 200


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--role", "luck"), "roles must be 'all' or among alignment"),
        (("--role", "grammar"), "There is too little to judge grammar by: grammar: no sentences were given"),
        (("--role", "self", "--task", "luck"), "task must be one of self: itself, got 'luck'"),
        (("--conllu", "nowhere"), "file must be one that can be read, got 'nowhere'"),
        (("--part", "cross"), "part must be one of self in this model, got 'cross'"),
    ],
)
def test_calls_that_are_wrong(capsys, checkpoint, texts, words, said):
    code, out, err = roles(capsys, checkpoint, "--lines", texts, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_broken_line_is_told(capsys, checkpoint, tmp_path):
    (tmp_path / "a.conllu").write_text("1\tthe\t_\t_\t_\t_\tx\tdet\t_\t_\n")
    code, _, err = roles(capsys, checkpoint, "--conllu", tmp_path / "a.conllu")
    assert code == 2
    assert "line 1 of" in err
