import json

import pytest

from headwise.cli.app import main
from headwise.experiments import investigate as home
from headwise.experiments.card import Card, Number, Plot, Series
from headwise.experiments.claim import Claim

LINES = "the cat sat on the mat because it was tired .\nthe dog sat on the cat because it was tired .\n"


def run(study):
    card = Card("corrected", "Half of it.", {"share": Number(0.5, "of heads", 0.25, 0.75, "share", "20 %")}, texts=len(study.texts), tokens=study.token_count)
    return Card(**{**vars(card), "correction": "Some heads.", "plot": Plot("bars", "layer", "share", [Series("a", [0, 1], [0.2, 0.4])])})


def claim(run) -> Claim:
    return Claim("Heads are many.", "We 2020", "https://example.org", "20 %.", "More than one.", "One.", "Count.", run)


@pytest.fixture(autouse=True)
def claims(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    made = {"many": claim(run), "unknown": claim(lambda study: study.too_few_texts(9, "it"))}
    monkeypatch.setattr(home, "entries", lambda package: made)
    (tmp_path / "texts.txt").write_text(LINES + "\n")
    return made


def outcome(capsys, *words):
    code = main(["claims", *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_a_card_each_and_how_many_came_out_how(capsys, checkpoint, tmp_path):
    code, out, err = outcome(capsys, checkpoint, "--texts", tmp_path / "texts.txt")
    assert (code, err) == (0, "")
    assert "~ corrected    Heads are many.  many" in out and "               Some heads." in out and "Half of it." in out
    assert "? inconclusive Heads are many.  unknown" in out and "It needs at least 9 texts to be measured; got 2." in out
    assert "2 texts, 22 tokens. We 2020" in out
    assert "~ 1 corrected  partly supported: true of some part of it, which the card names\n? 1 inconclusive  the numbers do not decide\n" in out
    assert "0.25 … 0.75" not in out


def test_numbers_with_intervals_where_they_are_asked_for(capsys, checkpoint, tmp_path):
    for words in (["--only", "many"], ["--numbers"]):
        code, out, _ = outcome(capsys, checkpoint, "--texts", tmp_path / "texts.txt", *words)
        assert code == 0
        assert "0.25 … 0.75" in out and "20 %" in out and "rule: Count." in out


def test_json_is_the_claims_and_nothing_else(capsys, checkpoint, tmp_path):
    code, out, err = outcome(capsys, checkpoint, "--texts", tmp_path / "texts.txt", "--only", "unknown", "--only", "many", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["claims"]
    assert [(one["name"], one["verdict"]) for one in found["claims"]] == [("many", "corrected"), ("unknown", "inconclusive")]
    assert found["claims"][0]["numbers"]["share"] == {"value": 0.5, "means": "of heads", "low": 0.25, "high": 0.75, "unit": "share", "published": "20 %"}


def test_csv_and_png(capsys, checkpoint, tmp_path):
    csv, png = tmp_path / "numbers.csv", tmp_path / "plot.png"
    code, _, _ = outcome(capsys, checkpoint, "--texts", tmp_path / "texts.txt", "--only", "many", "--csv", csv, "--png", png)
    assert code == 0
    assert csv.read_text() == "claim,verdict,number,value,low,high,unit,means,published\nmany,corrected,share,0.5,0.25,0.75,share,of heads,20 %\n"
    assert png.read_bytes().startswith(b"\x89PNG")


def test_what_was_measured_is_measured_again_only_when_asked_for(capsys, checkpoint, tmp_path, claims):
    calls = []

    def counted(study):
        calls.append(1)
        return run(study)

    claims["many"] = claim(counted)
    for words, times in (((), 1), ((), 1), (("--anew",), 2), (("--seed", "1"), 3), (("--limit", "1"), 4), (("--length", "8"), 5)):
        assert outcome(capsys, checkpoint, "--texts", tmp_path / "texts.txt", "--only", "many", *words)[0] == 0
        assert len(calls) == times


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "no"], "only must be names of claims, got 'no'. The claims are many, unknown."),
        (["--texts", "none.txt"], "text must name a file that can be read after @, got '@none.txt' (No such file or directory). Check the path."),
        (["--png", "x.png"], "png must be of one claim, got all of them. Name one with --only."),
        (["--png", "x.png", "--only", "many", "--only", "unknown"], "png must be of one claim, got 2 of them. Name one with --only."),
        (["--png", "x.png", "--only", "unknown", "--texts", "TEXTS"], "png must be of a claim with a plot, got 'unknown', which has none on this model."),
        (["--png", "x.jpg", "--only", "many"], "png must name a file that ends in .png"),
        (["--csv", "none/x.csv"], "csv must name a file in a folder that exists"),
        (["--texts", "SHORT"], "Each text needs at least 8 tokens, got 2 in 'the cat'. Join it with another text, or leave it out."),
        (["--texts", "EMPTY"], "texts must hold at least one text, got an empty list. Pass a text."),
        (["--conllu", "none.conllu", "--texts", "TEXTS"], "file must be one that can be read, got 'none.conllu' (No such file or directory). Check the path."),
    ],
)
def test_bad_input_is_one_line(capsys, checkpoint, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("the cat\n")
    (tmp_path / "empty.txt").write_text("\n \n")
    files = {"TEXTS": "texts.txt", "SHORT": "short.txt", "EMPTY": "empty.txt"}
    code, out, err = outcome(capsys, checkpoint, *(files.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert message in " ".join(err.split()) and err.count("\n") == 1
