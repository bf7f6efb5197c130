"""`headwise compare` prints, writes and draws what `hw.compare` says."""

import csv
import json

import pytest
from PIL import Image

import headwise as hw
from headwise.cli.app import main

TEXT = "the cat sat on the mat ."
pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture(scope="module")
def tuned(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned") / "model"
    hw.open_model(checkpoint).edit([hw.Scale(1, 2, 0.5), hw.Temperature(2, 4, 2.0)]).save(folder)
    return folder


def compare(capsys, *words):
    code = main(["compare", *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_the_heads_that_changed_are_named_with_their_numbers(capsys, checkpoint, tuned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = compare(capsys, checkpoint, tuned)
    assert (code, err) == (0, "")
    assert "1 muted, 1 tempered" in out and "3 layers of 6 heads" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line[:4] in ("1.2 ", "2.4 ")}
    assert "muted" in lines["1.2"] and "gain 0.500 < 0.7" in lines["1.2"]
    assert "tempered" in lines["2.4"] and "size of QK 0.500 < 0.8" in lines["2.4"] and "2.000" in lines["2.4"]


def test_json_csv_and_png_have_every_head(capsys, checkpoint, tuned, tmp_path):
    words = ["--text", TEXT, "--measure", "pattern", "--json", "--csv", tmp_path / "heads.csv", "--png", tmp_path / "heads.png"]
    code, out, _ = compare(capsys, checkpoint, tuned, *words)
    (part,) = json.loads(out)["parts"]
    right = hw.compare(checkpoint, tuned, TEXT)
    assert code == 0 and part["muted"] == 0.7 and len(part["heads"]) == 18
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    for row, head in zip(rows, part["heads"], strict=True):
        here = right.sel(layer=head["layer"], head=head["head"])
        assert row["verdict"] == head["verdict"] == here["verdict"].item()
        for name in ("gain", "ov", "qk", "size", "temperature", "pattern", "writes"):
            assert float(row[name]) == pytest.approx(float(here[name]), abs=1e-6) == head[name]
    with Image.open(tmp_path / "heads.png") as picture:
        assert picture.size[0] > 300


def test_thresholds_are_options(capsys, checkpoint, tuned):
    assert "no head changed by itself" in compare(capsys, checkpoint, tuned, "--muted", "0.4", "--tempered", "0.4")[1]


WRONG = {
    "measure must be one of gain, ov,": ["--measure", "length"],
    "measure 'pattern' must have a text to be measured on, got none. Add --text.": ["--measure", "pattern"],
    "part must be one of self, got 'cross'.": ["--part", "cross"],
    "muted must be in 0..1 and amplified at least 1, got 2.0 and 1.25.": ["--muted", "2"],
    "png must name a file that ends in .png": ["--png", "heads.jpg"],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_one_line_and_exit_code_2(capsys, checkpoint, message):
    code, out, err = compare(capsys, checkpoint, checkpoint, *WRONG[message])
    assert (code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1


def test_a_picture_is_of_one_part(capsys, tmp_path):
    from tests.models.tiny import build

    build("t5").save_pretrained(tmp_path / "t5")
    code, out, err = compare(capsys, tmp_path / "t5", tmp_path / "t5", "--json")
    assert code == 0 and [part["part"] for part in json.loads(out)["parts"]] == ["encoder.self", "decoder.self", "decoder.cross"]
    code, out, err = compare(capsys, tmp_path / "t5", tmp_path / "t5", "--png", tmp_path / "heads.png")
    assert code == 2 and "part must be given for a picture of a model with several" in err
