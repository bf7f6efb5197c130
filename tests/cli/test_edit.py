"""`headwise edit` changes heads, proves it, and saves what plain transformers loads."""

import csv
import json

import pytest
import torch
from PIL import Image
from transformers import AutoModelForCausalLM

import headwise as hw
from headwise.cli.app import main
from headwise.interventions.edit_list import read_edits

TEXT = "the cat sat on the mat ."
EDITS = ["--ablate", "1.2", "--scale", "0.1=1.5", "--temperature", "2.4=2"]
pytestmark = pytest.mark.usefixtures("plain")


def edit(capsys, checkpoint, *words):
    code = main(["edit", str(checkpoint), *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_the_edits_are_told_proved_and_saved(capsys, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    code, out, err = edit(capsys, checkpoint, *EDITS, "--text", TEXT, "--out", tmp_path / "edited", "--list", tmp_path / "edits.json")
    assert (code, err) == (0, "")
    for words in (
        "ablate       1.2",
        "temperature  2.4  temperature 2",
        "in the weights",
        "KL",
        "before",
        "to the last bit (off by 0",
        "identical byte for byte",
    ):
        assert words in out, words
    edits = [hw.Ablate(1, 2), hw.Scale(0, 1, 1.5), hw.Temperature(2, 4, 2.0)]
    assert read_edits(tmp_path / "edits.json") == edits == read_edits(tmp_path / "edited" / "headwise.json")
    ids = torch.arange(1, 8)[None]
    with torch.no_grad():
        plain = AutoModelForCausalLM.from_pretrained(tmp_path / "edited").eval()(ids).logits
        torch.testing.assert_close(plain, hw.open_model(checkpoint).edit(edits).hf(ids).logits)


def test_a_list_that_cannot_be_written_is_told_in_a_line(capsys, checkpoint, tmp_path):
    code, _, err = edit(capsys, checkpoint, *EDITS, "--list", tmp_path / "nowhere" / "edits.json")
    assert code == 2
    assert "Cannot write the edits to" in err.replace("\n", " ")


def test_a_list_is_applied_again(capsys, checkpoint, tmp_path):
    edit(capsys, checkpoint, *EDITS, "--list", tmp_path / "edits.json")
    code, out, _ = edit(capsys, checkpoint, "--apply", tmp_path / "edits.json", "--tie-heads", "1", "--json")
    said = json.loads(out)
    assert code == 0 and [one["edit"] for one in said["edits"]] == ["tie_heads", "ablate", "scale", "temperature"]
    assert said["passed"] and {one["name"]: one["holds"] for one in said["verdicts"]} == {"others": True, "both ways": True, "numbers": True, "original": True}


def test_the_numbers_are_those_of_the_runs(capsys, checkpoint, tmp_path):
    code, out, _ = edit(
        capsys, checkpoint, *EDITS, "--mask-keys", "2.0=0,1", "--text", TEXT, "--json", "--csv", tmp_path / "w.csv", "--png", tmp_path / "w.png"
    )
    said = json.loads(out)
    assert code == 0 and [one["edit"] for one in said["at_run"]] == ["mask_keys"]
    model = hw.open_model(checkpoint)
    edited = model.edit([hw.Ablate(1, 2), hw.Scale(0, 1, 1.5), hw.Temperature(2, 4, 2.0), hw.MaskKeys(2, 0, keys=[0, 1])])
    one, two = (x.run(TEXT) for x in (model, edited))
    ratio = two.writes["norm"].mean(("batch", "query")) / one.writes["norm"].mean(("batch", "query"))
    rows = list(csv.DictReader((tmp_path / "w.csv").read_text().splitlines()))
    assert len(rows) == 18
    for row in rows:
        assert float(row["write"]) == pytest.approx(float(ratio[int(row["layer"]), int(row["head"])]), rel=1e-4)
    before, after = (x.outputs["logits"][0].double() for x in (one, two))
    kl = (before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum(-1)
    assert said["effect"]["kl"] == pytest.approx(float(kl.mean()), rel=1e-4) and said["effect"]["worst"] == pytest.approx(float(kl.max()), rel=1e-4)
    assert said["effect"]["after"][0][1] == pytest.approx(float(after[-1].softmax(-1).max()), rel=1e-4)
    with Image.open(tmp_path / "w.png") as picture:
        assert picture.size[0] > 300


def test_nan_after_an_edit_is_exit_code_1_and_nothing_is_saved(capsys, checkpoint, tmp_path):
    code, out, _ = edit(capsys, checkpoint, "--scale", "0.1=1e38", "--out", tmp_path / "edited")
    assert code == 1
    assert "are NaN or infinite after the edits" in " ".join(out.split())
    assert not (tmp_path / "edited").exists()


WRONG = {
    "edits must be at least one, got none": [],
    "ablate must be LAYER.HEAD, got '3'. Write for example --ablate 3.5.": ["--ablate", "3"],
    "ablate must be LAYER.HEAD, got '1.2=3'.": ["--ablate", "1.2=3"],
    "scale must be LAYER.HEAD=FACTOR, got '1.2'. Write for example --scale 3.5=1.5.": ["--scale", "1.2"],
    "scale must be LAYER.HEAD=FACTOR, got 'loud' after =.": ["--scale", "1.2=loud"],
    "tie-heads must be LAYER, got 'all'. Write for example --tie-heads 3.": ["--tie-heads", "all"],
    "mask-keys must be LAYER.HEAD=KEY,KEY,..., got 'a,b' after =. Write for example --mask-keys 3.5=0,1.": ["--mask-keys", "1.2=a,b"],
    "part must be one of self, got 'decoder.cross'.": ["--ablate", "decoder.cross:1.2"],
    "head must be in 0..5 in layer 1, got 6.": ["--ablate", "1.6"],
    "edits must not contradict one another": ["--ablate", "1.2", "--scale", "1.2=2"],
    "must be pruned together": ["--prune", "1.2"],
    "Cannot read edits from": ["--apply", "none.json"],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_one_line_and_exit_code_2(capsys, checkpoint, message):
    code, out, err = edit(capsys, checkpoint, *WRONG[message])
    assert (code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1


def test_options_of_earlier_releases_still_work_with_a_warning(capsys, checkpoint):
    old = ["--silence", "1.2", "--temper=2.4=2", "--tie", "0", "--blind", "2.0=0,1", "--at", "run", "--json"]
    new = ["--ablate", "1.2", "--temperature", "2.4=2", "--tie-heads", "0", "--mask-keys", "2.0=0,1", "--mode", "run", "--json"]
    code, out, err = edit(capsys, checkpoint, *old)
    assert (code, out) == edit(capsys, checkpoint, *new)[:2]
    renamed = [("silence", "ablate"), ("temper", "temperature"), ("tie", "tie-heads"), ("blind", "mask-keys"), ("at", "mode")]
    assert err.splitlines() == [f"warning: --{one} is deprecated and will be removed in the next release. Use --{other}." for one, other in renamed]
    assert edit(capsys, checkpoint, *new)[2] == "" and "--silence" not in edit(capsys, checkpoint, "--help")[1]


def test_the_source_is_exchanged_only_when_told(capsys, checkpoint, tmp_path):
    edit(capsys, checkpoint, *EDITS, "--out", tmp_path / "copy")
    code, _, err = edit(capsys, tmp_path / "copy", "--tie-heads", "0", "--out", tmp_path / "copy")
    assert code == 2 and "must be new or empty" in err
    code, out, _ = edit(capsys, tmp_path / "copy", "--tie-heads", "0", "--out", tmp_path / "copy", "--overwrite")
    assert code == 0 and "tensors changed" in out
    (tmp_path / "copy" / "thesis.tex").write_text("years of work")
    code, out, _ = edit(capsys, checkpoint, *EDITS, "--out", tmp_path / "copy", "--overwrite")
    assert code == 0 and "still there: thesis.tex, which headwise did not write" in out
    code, out, _ = edit(capsys, checkpoint, *EDITS, "--out", tmp_path / "copy", "--overwrite", "--json")
    assert json.loads(out)["saved"]["others"] == ["thesis.tex"] and (tmp_path / "copy" / "thesis.tex").read_text() == "years of work"


def test_an_encoder_has_no_next_token_and_parts_are_named(capsys, tmp_path):
    from tests.models.tiny import build

    build("bert").save_pretrained(tmp_path / "bert")
    code, out, _ = edit(capsys, tmp_path / "bert", "--ablate", "1.2")
    assert code == 0 and "cosine of last_hidden_state before and after" in out
    build("t5").save_pretrained(tmp_path / "t5")
    code, out, _ = edit(capsys, tmp_path / "t5", "--ablate", "decoder.cross:1.2", "--json")
    said = json.loads(out)
    assert code == 0 and said["edits"] == [{"edit": "ablate", "layer": 1, "head": 2, "part": "decoder.cross"}]
    assert said["effect"]["writes"]["decoder.cross"][1][2] == 0
    code, _, err = edit(capsys, tmp_path / "t5", "--ablate", "decoder.cross:1.2", "--png", tmp_path / "w.png")
    assert code == 2 and "png must show one part, got 3 in" in err
