"""`headwise rank` prints, writes and draws what `hw.rank` says."""

import csv
import json

import pytest
from PIL import Image

import headwise as hw
from headwise.cli.app import main
from tests.cli.conftest import WORDS

TEXTS = ["the cat sat on the mat .", "the dog was tired because it sat ."]


def rank(capsys, checkpoint, *words):
    code = main(["rank", str(checkpoint), *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(scope="module")
def right(checkpoint):
    return hw.rank(hw.open_model(checkpoint), TEXTS)


def test_json_has_every_head_with_its_effect(capsys, checkpoint, right):
    code, out, _ = rank(capsys, checkpoint, *TEXTS, "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["method"], said["loss"], said["ablation"], said["texts"], said["tokens"]) == ("ablation", "next", "zero", 2, 13)
    assert said["base"] == pytest.approx(right.attrs["base"])
    assert [head["rank"] for head in said["heads"]] == list(range(1, 19))
    for head in said["heads"]:
        assert head["effect"] == pytest.approx(float(right.effect[head["layer"], head["head"]]), abs=1e-6)
        assert head["low"] <= head["effect"] <= head["high"]


def test_the_table_names_the_first_and_the_last(capsys, checkpoint, right, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = rank(capsys, checkpoint, *TEXTS, "--top", "2")
    order = right.importance.stack(place=("layer", "head")).sortby(right.importance.stack(place=("layer", "head")), ascending=False)
    layer, head = order.place.values[0]
    assert code == 0
    assert "by how much the loss grows when the head is silenced; exact; loss: next, zero" in out
    assert next(line for line in out.splitlines() if line.split()[:1] == ["1"]).split()[1] == f"{layer}.{head}"
    assert "the 2 on which least does" in out
    assert len([line for line in out.splitlines() if line.startswith("L")]) == 3


def test_csv_and_png(capsys, checkpoint, right, tmp_path):
    code, _, _ = rank(capsys, checkpoint, *TEXTS, "--csv", tmp_path / "heads.csv", "--png", tmp_path / "heads.png")
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert code == 0
    assert len(rows) == 18
    assert list(rows[0]) == ["layer", "head", "effect", "low", "high", "importance", "rank"]
    assert float(rows[0]["effect"]) == pytest.approx(float(right.importance.max()), abs=1e-6)
    with Image.open(tmp_path / "heads.png") as image:
        assert image.size[0] > 200


def test_a_file_of_lines_with_a_state(capsys, checkpoint, right, tmp_path):
    (tmp_path / "texts").write_text("\n\n".join(TEXTS) + "\n")
    for _ in range(2):
        code, out, _ = rank(capsys, checkpoint, "--lines", tmp_path / "texts", "--state", tmp_path / "state", "--json")
        assert code == 0
        assert json.loads(out)["heads"][0]["effect"] == pytest.approx(float(right.importance.max()), abs=1e-6)
    assert len((tmp_path / "state").read_text().splitlines()) == 1 + 2 * 3


def test_two_prompts(capsys, checkpoint, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    model = hw.open_model(checkpoint)
    found = {int(model.run(f"the cat sat on the {word}").outputs["logits"][0, -1].argmax()): word for word in WORDS[1:]}
    clean, corrupt = (f"the cat sat on the {word}" for word in list(found.values())[:2])
    code, out, _ = rank(capsys, checkpoint, "--clean", clean, "--corrupt", corrupt, "--json")
    assert (code, json.loads(out)["method"]) == (0, "patch")
    assert "how much of the way" in rank(capsys, checkpoint, "--clean", clean, "--corrupt", corrupt)[1]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "texts must hold at least one text, got none"),
        (("a", "--clean", "b"), "clean and corrupt must come together, got only clean"),
        (("a", "--clean", "b", "--corrupt", "c"), "texts must be left out with --clean and --corrupt, got 1"),
        (("a", "--method", "luck"), "method must be one of ablation, gradient, write, patch, got 'luck'"),
        (("a", "--csv", "nowhere/x.csv"), "csv must name a file in a folder that exists, got 'nowhere/x.csv'"),
        (("a", "--png", "x.jpg"), "png must name a file that ends in .png"),
        (("--lines", "nowhere"), "text must name a file that can be read after @, got '@nowhere'"),
    ],
)
def test_calls_that_are_wrong(capsys, checkpoint, words, said):
    code, out, err = rank(capsys, checkpoint, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_csv_that_cannot_be_written(capsys, checkpoint, tmp_path):
    code, _, err = rank(capsys, checkpoint, TEXTS[0], "--method", "write", "--csv", tmp_path)
    assert code == 2
    assert "csv must name a file that can be written" in err
