"""What `headwise look` prints is what the run says."""

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
from PIL import Image

from headwise.cli.app import main
from headwise.models.loading.open_model import open_model
from headwise.verdict import Verdict

TEXT = "the cat sat on the mat because it was tired ."


@pytest.fixture(scope="module")
def run(checkpoint):
    return open_model(checkpoint).run(TEXT)


def look(capsys, checkpoint, *words, text=TEXT):
    code = main(["look", str(checkpoint), text, *words])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(scope="module")
def said(checkpoint):
    """What `--json` says of the text."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(["look", str(checkpoint), TEXT, "--json"]) == 0
    return json.loads(out.getvalue())


def test_json_has_every_measure_as_the_run_has_it(said, run):
    part = said["parts"]["self"]
    assert part["tokens"] == TEXT.split() == run.tokens[0]
    assert part["layers"] == [0, 1, 2]
    means = run.statistics.mean(("batch", "query"))
    for name in ("entropy", "max_weight", "participation", "distance", "first", "previous", "self", "sink"):
        assert part["measures"][name]["values"] == means[name].values.tolist()
    for name in ("share", "norm", "cosine"):
        assert part["measures"][f"write_{name}"]["values"] == run.writes[name].mean(("batch", "query")).values.tolist()
    assert said["head"] is None


def test_json_has_the_proof_with_its_residuals(said, run):
    proof = said["proof"]
    assert proof["passed"] is True
    assert [verdict["name"] for verdict in proof["verdicts"]] == list(run.proof.verdicts)
    judged = [verdict for verdict in proof["verdicts"] if verdict["residual"] is not None]
    assert len(judged) >= 6
    assert all(verdict["residual"] <= verdict["allowed"] for verdict in judged)


@pytest.mark.parametrize("measure", ["first", "write share"])
def test_the_table_shows_the_mean_of_each_head(capsys, checkpoint, run, measure):
    code, out, _ = look(capsys, checkpoint, "--statistic", measure)
    name = measure.replace(" ", "_").replace("-", "_")
    found = run.writes[name.removeprefix("write_")] if name.startswith("write") else run.statistics[name]
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith("L")}
    assert code == 0
    assert "every row of weights and its sink add up to 1" in out
    assert "7 of 7 passed" in out
    assert list(lines) == ["L0", "L1", "L2"]
    for layer, row in enumerate(found.mean(("batch", "query")).values.tolist()):
        assert [float(word) for word in lines[f"L{layer}"]] == pytest.approx(row, abs=0.00501)


def test_a_proof_that_fails_is_exit_code_1(capsys, checkpoint, monkeypatch):
    monkeypatch.setattr(
        "headwise.models.verification.proof.logit_parity",
        lambda forward_pass, outputs, implementations_differ=False: Verdict("model", "the outputs are the model's", False, 1.0, 0.1, "logits"),
    )
    code, out, _ = look(capsys, checkpoint)
    assert code == 1
    assert "6 of 7 passed" in out
    assert "(logits)" in out


def test_standout_heads_are_the_largest(said, run):
    first = next(answer for answer in said["parts"]["self"]["standout_heads"] if answer["measure"] == "first")
    means = run.statistics["first"].mean(("batch", "query"))
    layer, head, value = first["heads"][0]
    assert value == float(means.max()) == float(means[layer, head])


def test_only_the_layers_asked_for(capsys, checkpoint):
    found = json.loads(look(capsys, checkpoint, "--layer", "2", "--layer", "1", "--json")[1])["parts"]["self"]
    assert found["layers"] == [1, 2]
    assert {head[0] for answer in found["standout_heads"] for head in answer["heads"]} <= {1, 2}


def test_a_head_shows_its_largest_weights(capsys, checkpoint, run):
    code, out, _ = look(capsys, checkpoint, "--head", "2.5", "--top", "3", "--rows", "4:9", "--json")
    head = json.loads(out)["head"]
    assert code == 0
    assert (head["layer"], head["head"], head["length"], head["part"]) == (2, 5, 11, "self")
    assert [row["query"] for row in head["rows"]] == [4, 5, 6, 7, 8]
    for row, weights in zip(head["rows"], run.weights(2, 5, queries=slice(4, 9)), strict=True):
        assert [weight for _, _, weight in row["keys"]] == weights.topk(3).values.tolist()
        assert all(weights[key] == weight and token == TEXT.split()[key] for key, token, weight in row["keys"])
        assert row["rest"] == pytest.approx(1 - float(weights.topk(3).values.sum()), abs=1e-6)


def test_a_head_in_words_says_which_rows_it_shows(capsys, checkpoint):
    _, out, _ = look(capsys, checkpoint, "--head", "0.0", "--rows", ":1")
    assert "head 0.0" in out
    assert "1 of 11 rows" in out
    assert "1.00 ████████ the" in out


def test_text_from_a_file(capsys, checkpoint, tmp_path):
    (tmp_path / "story.txt").write_text("the dog sat .\n")
    assert json.loads(look(capsys, checkpoint, "--json", text=f"@{tmp_path / 'story.txt'}")[1])["parts"]["self"]["tokens"] == ["the", "dog", "sat", "."]


@pytest.mark.parametrize("words", [[], ["--head", "1.2"]], ids=["table", "map"])
def test_a_picture_of_the_table_or_of_a_head(capsys, checkpoint, tmp_path, words):
    code, _, err = look(capsys, checkpoint, "--png", str(tmp_path / "heads.png"), *words)
    assert (code, err) == (0, "")
    with Image.open(tmp_path / "heads.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300


def test_the_page_of_a_run_as_one_file(checkpoint, tmp_path, capsys):
    path = tmp_path / "heads.html"
    assert main(["look", str(checkpoint), "the cat sat on the mat", "--html", str(path)]) == 0
    words = path.read_text()
    assert words.startswith("<!doctype html>") and "headwise-recorded" in words
    assert main(["look", str(checkpoint), "the cat", "--html", str(tmp_path / "nowhere" / "heads.html")]) == 2
    assert "Cannot write" in capsys.readouterr().err
