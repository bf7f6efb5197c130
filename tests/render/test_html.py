"""The page as one file: it carries every answer that it asks for, and needs nothing else."""

import base64
import gzip
import json
import re

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.server.embedded.saved_page import five_moves_html
from headwise.server.payloads.tensor_payload import from_safetensors
from tests.server import models


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from headwise.models.loading.open_model import open_model

    return open_model(models.write(tmp_path_factory.mktemp("html") / "llama", "llama"))


def recorded(path):
    """What a file carries, by question."""
    words = path.read_text()
    found = json.loads(re.search(r'<script type="application/json" id="headwise-recorded">(.*?)</script>', words, re.DOTALL)[1])
    answers = {asked: (one["status"], one["type"], gzip.decompress(base64.b64decode(one["gzip"]))) for asked, one in found["responses"].items()}
    return found["address"], answers


def test_a_run_s_file_answers_what_the_server_would(model, tmp_path):
    run = model.run(models.TEXT)
    run.save_html(tmp_path / "run.html")
    address, answers = recorded(tmp_path / "run.html")
    assert address == "model"
    told = json.loads(answers["POST /api/runs"][2])
    assert told["text"] == models.TEXT and told["id"] == "file" and told["parts"][0]["recorded_level"] == 4 == told["parts"][0]["top_level"]
    state = json.loads(answers["GET /api/state"][2])
    assert state["can"] == [] and not state["may_write"] and state["models"][0]["state"] == "ready" and state["texts"][0]["text"] == models.TEXT
    grid = from_safetensors(answers["GET /api/runs/file/grid"][2])["arrays"]
    np.testing.assert_allclose(grid["entropy"], run.statistics.entropy.mean(("batch", "query")).values, rtol=1e-6)
    proof = json.loads(answers["GET /api/runs/file/proof"][2])
    assert {one["name"]: one["residual"] for one in proof["verdicts"]}["weights"] == run.proof.verdicts["weights"].residual
    for layer in range(3):
        for head in range(6):
            right = run.weights(layer, head).numpy()
            hidden = np.triu(np.ones((11, 11), bool), 1)
            weights = from_safetensors(answers[f"GET /api/runs/file/weights/{layer}/{head}"][2])["arrays"]["weights"]
            np.testing.assert_array_equal(weights, np.where(hidden, -1, right))
            tile = from_safetensors(answers[f"GET /api/runs/file/tiles/{layer}/{head}/4/0/0"][2])
            assert tile["encoding"] == "sqrt8" and (tile["arrays"]["tile"][hidden] == 0).all()
            np.testing.assert_allclose(((tile["arrays"]["tile"][~hidden].astype(float) - 1) / 253) ** 2, right[~hidden], atol=1 / 240)
            numbers = from_safetensors(answers[f"GET /api/runs/file/heads/{layer}/{head}"][2])["arrays"]
            np.testing.assert_allclose(numbers["entropy"], run.statistics.entropy.sel(layer=layer, head=head).values[0], rtol=2e-4, atol=1e-6)
            np.testing.assert_array_equal(numbers["peak"], run.statistics.peak.sel(layer=layer, head=head).values[0])


def test_a_token_cannot_end_the_script_that_holds_it(model, tmp_path):
    run = model.run("the <script>alert(1)</script> sat")
    run.save_html(tmp_path / "run.html")
    told = json.loads(recorded(tmp_path / "run.html")[1]["POST /api/runs"][2])
    assert told["parts"][0]["query_tokens"][1] == "<script>alert(1)</script>"
    words = (tmp_path / "run.html").read_text()
    assert len(re.findall("</script", words)) == 2 and "alert(1)" not in words


def test_a_file_asks_for_nothing_from_elsewhere(model, tmp_path):
    model.run(models.TEXT).save_html(tmp_path / "run.html")
    words = (tmp_path / "run.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", words.split("<script", 1)[0])
    assert "@import" not in words and not re.search(r"url\((?!['\"]?(data:|#))", words.split("</style>", 1)[0])


def test_a_long_text_s_maps_are_small_enough(model, tmp_path):
    run = model.run(" ".join(["the cat sat on the mat and the dog ran"] * 51))
    run.save_html(tmp_path / "run.html")
    _, answers = recorded(tmp_path / "run.html")
    part = json.loads(answers["POST /api/runs"][2])["parts"][0]
    assert part["recorded_level"] == 7 < part["top_level"] == 9
    assert from_safetensors(answers["GET /api/runs/file/tiles/0/0/7/0/0"][2])["arrays"]["tile"].shape == (128, 128)
    assert "GET /api/runs/file/weights/0/0" not in answers and (tmp_path / "run.html").stat().st_size < 3e6


def test_twelve_by_twelve_heads_and_512_tokens_are_below_three_megabytes(tmp_path):
    """Nothing repeats itself: random words, and heads that look here and there."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 96, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 16}
    hf = BertModel(BertConfig(vocab_size=len(models.WORDS), max_position_embeddings=512, **sizes)).eval()
    for parameter in hf.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    words = [models.WORDS[place] for place in torch.randint(len(models.WORDS), (512,)).tolist()]
    tokenizer = AutoTokenizer.from_pretrained(models.write(tmp_path / "bert", "bert"))
    run = hw.open_model(hf, tokenizer=tokenizer).run(" ".join(words))
    run.save_html(tmp_path / "run.html")
    _, answers = recorded(tmp_path / "run.html")
    (part,) = json.loads(answers["POST /api/runs"][2])["parts"]
    assert (part["layers"], part["heads"], part["queries"]) == (12, 12, 512) and "GET /api/runs/file/heads/11/11" in answers
    assert (tmp_path / "run.html").stat().st_size < 3_000_000


def test_the_five_moves_as_a_file(tmp_path):
    five_moves_html(tmp_path / "moves.html")
    address, answers = recorded(tmp_path / "moves.html")
    moves = json.loads(answers["GET /api/moves"][2])
    assert address == "moves;h=2" and moves["cases"]["2"]["tie_heads"]["verdicts"]["M5"]["state"] == "falls"
    assert json.loads(answers["GET /api/state"][2])["models"] == []


def test_a_run_without_its_model_has_no_page(tmp_path):
    run = hw.from_attentions([torch.softmax(torch.randn(1, 2, 4, 4), -1)])
    with pytest.raises(hw.HeadwiseError, match="This run was loaded without its model"):
        run.save_html(tmp_path / "run.html")


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(hw.HeadwiseError, match="Cannot write '.*moves.html'"):
        five_moves_html(tmp_path / "nowhere" / "moves.html")


def test_the_bundle_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr("headwise.server.embedded.saved_page.frontend_folder", lambda: tmp_path)
    with pytest.raises(hw.HeadwiseError, match="The page's bundle is missing: No such file or directory"):
        five_moves_html(tmp_path / "moves.html")
