"""Every bad input is one line of ours with what to do, exit code 2, no traceback, and nothing half-written."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BitNetConfig, BitNetForCausalLM

from headwise.cli.app import main
from tests.cli.conftest import WORDS, words

TEXT = "the cat sat ."


@pytest.fixture
def copy(checkpoint, tmp_path):
    """The checkpoint, to be spoilt."""
    return shutil.copytree(checkpoint, tmp_path / "model")


def refused(capsys, *arguments) -> str:
    """What is said of a call that must be refused."""
    capsys.readouterr()  # what fixtures said
    code = main(["look", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_a_directory_without_weights(capsys, copy):
    (copy / "model.safetensors").unlink()
    assert "a model directory must hold weights" in refused(capsys, copy, TEXT)


@pytest.mark.parametrize("keep", [0, 7, 200, -5])
def test_a_truncated_file(capsys, copy, keep):
    data = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(data[:keep])
    assert "model.safetensors must be a whole safetensors file" in refused(capsys, copy, TEXT)


def test_a_corrupt_file(capsys, copy):
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[8:40] = b"\xff" * 32
    (copy / "model.safetensors").write_bytes(data)
    assert "model.safetensors must be a whole safetensors file" in refused(capsys, copy, TEXT)


def test_a_pickle(capsys, copy):
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    assert "weights must be safetensors, got pytorch_model.bin" in refused(capsys, copy, TEXT)


def test_a_configuration_that_does_not_fit(capsys, copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"intermediate_size": 13}))
    assert "config.json must fit the weights" in refused(capsys, copy, TEXT)


def test_no_tokenizer(capsys, copy):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink()
    assert "This model has no tokenizer to read text with" in refused(capsys, copy, TEXT)


def test_weights_that_are_no_numbers(capsys, copy):
    weights = load_file(copy / "model.safetensors")
    weights["model.layers.1.self_attn.o_proj.weight"][3, 4] = torch.nan
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert "weights must be numbers, got NaN or infinity in model.layers.1.self_attn.o_proj.weight" in refused(capsys, copy, TEXT)


def test_a_model_that_does_not_exist(capsys, tmp_path):
    assert "source must" in refused(capsys, tmp_path / "nowhere", TEXT)


def test_a_demo_that_does_not_exist(capsys):
    assert "a demo must be one of demo:minilm, demo:smollm2, " in refused(capsys, "demo:gpt5", TEXT)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text(capsys, checkpoint, text):
    assert "text must have at least one token" in refused(capsys, checkpoint, text)


def test_a_text_that_is_too_long(capsys, checkpoint):
    assert "24" in refused(capsys, checkpoint, "cat " * 25)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--statistic", "entropi"], "statistic must be one of distance, entropy"),
        (["--statistic", "peak"], "statistic must be one of distance, entropy"),
        (["--head", "31.2"], "head must lie within layers 0 to 2 and heads 0 to 5, got 31.2. Choose one of these."),
        (["--head", "2.6"], "head must lie within layers 0 to 2 and heads 0 to 5, got 2.6. Choose one of these."),
        (["--head", "3"], "head must be LAYER.HEAD, got '3'. Write for example --head 3.5."),
        (["--head", "-1.0"], "head must be LAYER.HEAD, got '-1.0'"),
        (["--head", "1.2", "--rows", "2:9"], "rows must lie within 0:4, got 2:9. Choose some of the text's 4 tokens."),
        (["--head", "1.2", "--rows", "3:3"], "rows must lie within 0:4, got 3:3"),
        (["--head", "1.2", "--rows", "2"], "rows must be FIRST:STOP, got '2'. Write for example --rows 0:20."),
        (["--rows", "0:2"], "rows and top must come with a head, got none. Add for example --head 3.5."),
        (["--top", "2"], "rows and top must come with a head, got none."),
        (["--head", "1.2", "--top", "0"], "'--top'"),
        (["--layer", "3"], "layer must be one of 0 to 2 in this model, got 3. Choose one of these."),
        (["--part", "decoder.cross"], "part must be one of self in this model, got decoder.cross. Choose one."),
        (["--png", "heads.jpg"], "png must name a file that ends in .png, got 'heads.jpg'. Correct the ending."),
    ],
)
def test_arguments_that_cannot_be_honoured(capsys, checkpoint, arguments, said):
    assert said in refused(capsys, checkpoint, TEXT, *arguments)


def test_a_picture_is_not_half_written(capsys, checkpoint, tmp_path):
    refused(capsys, checkpoint, TEXT, "--head", "9.9", "--png", tmp_path / "heads.png")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mixing(tmp_path):
    """A model with a norm between its heads and W_O: what a head writes cannot be told apart."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 12, "num_hidden_layers": 2}
    model = BitNetForCausalLM(BitNetConfig(vocab_size=len(WORDS), **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(tmp_path)
    words(tmp_path)
    return tmp_path


def test_writes_that_cannot_be_told_apart_are_refused(capsys, mixing):
    assert "cannot be attributed to heads" in refused(capsys, mixing, TEXT, "--statistic", "write_share")


def test_the_rest_of_such_a_model_is_shown(capsys, mixing):
    capsys.readouterr()
    code = main(["look", str(mixing), TEXT, "--json"])
    part = json.loads(capsys.readouterr().out)["parts"]["self"]
    assert code == 0
    assert "cannot be attributed to heads" in part["writes_refused"]
    assert "write_share" not in part["measures"]


def test_a_cache_that_cannot_be_written(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "file"))
    assert "the cache must be writable" in refused(capsys, "demo:smollm2", TEXT)


def test_errors_as_json(capsys, checkpoint):
    assert main(["look", str(checkpoint), "", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ArgumentError"
