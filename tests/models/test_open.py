"""Opening: the right class with every weight in its place, and each fault of a checkpoint said in one line of ours."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel
from transformers.utils import logging

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, CheckpointError, HeadwiseError, ModelError
from headwise.models.loading.checkpoint_files import check_numbers
from tests.models.tiny import COMMON, FAMILIES, build, drawn, given, ids


@pytest.fixture
def folder(tmp_path):
    build("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def tokenizer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s"]
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "vocab.txt").write_text("\n".join(words))
    (tmp_path / "words" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 64}))
    return tmp_path / "words"


def change(folder, **settings):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


def weights(folder, alter):
    found = load_file(folder / "model.safetensors")
    alter(found)
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "gpt2"])
def test_a_directory_opens_as_the_class_that_was_saved(name, tmp_path):
    hf = build(name)
    hf.save_pretrained(tmp_path)
    model = hw.open_model(tmp_path)
    assert type(model.hf) is type(hf)
    assert not model.hf.training
    found = model.run(given(FAMILIES[name]))
    right = hw.open_model(hf).run(given(FAMILIES[name]))
    assert all(found.parts[part].identical(right.parts[part]) for part in right.parts)
    assert model.name == str(tmp_path)
    assert model.note is None
    assert model.tokenizer is None


def test_a_head_for_another_task_is_opened_with_it(tmp_path):
    hf = drawn(BertForMaskedLM(BertConfig(**COMMON)))
    hf.save_pretrained(tmp_path)
    assert type(hw.open_model(tmp_path).hf) is BertForMaskedLM
    change(tmp_path, architectures=None)
    with pytest.raises(CheckpointError, match=r"got none for pooler.dense.bias, pooler.dense.weight of BertModel"):
        hw.open_model(tmp_path)  # the base model has a pooler, which this checkpoint cannot fill


def test_heads_that_the_class_lacks_are_no_fault(tmp_path):
    drawn(BertModel(BertConfig(**COMMON))).save_pretrained(tmp_path)
    weights(tmp_path, lambda found: found.update({"cls.predictions.bias": torch.zeros(97), "embeddings.position_ids": torch.arange(512)[None].clone()}))
    assert type(hw.open_model(tmp_path).hf) is BertModel


@pytest.mark.parametrize("dtype", ["bfloat16", torch.float64])
def test_a_dtype_may_be_asked_for(folder, dtype):
    model = hw.open_model(folder, dtype=dtype, device="cpu")
    assert model.hf.dtype == getattr(torch, str(dtype).removeprefix("torch."))


def test_the_saved_dtype_stays(tmp_path):
    build("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    assert hw.open_model(tmp_path).hf.dtype == torch.bfloat16


def test_text_is_read_by_the_tokenizer_beside_the_weights(tmp_path, tokenizer):
    build("bert").save_pretrained(tokenizer)
    model = hw.open_model(tokenizer)
    run = model.run(["the cat sat", "cats"])
    assert run.tokens == [["[CLS]", "the", "cat", "sat", "[SEP]"], ["[CLS]", "cat", "##s", "[SEP]", "⟨pad⟩"]]
    assert run.statistics["padding"].values.tolist() == [[False] * 5, [False] * 4 + [True]]
    assert run.statistics["token"].values[1, 2] == "##s"


@pytest.mark.parametrize("kind", ["path", "text", "object"])
def test_a_tokenizer_may_be_given(tokenizer, kind):
    words = {"path": tokenizer, "text": str(tokenizer), "object": AutoTokenizer.from_pretrained(tokenizer)}[kind]
    model = hw.open_model(build("bert"), tokenizer=words)
    assert model.run("the cat").tokens == [["[CLS]", "the", "cat", "[SEP]"]]


def test_opening_leaves_transformers_as_it_was(folder):
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hw.open_model(folder)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def corrupt(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])


def empty(folder):
    (folder / "model.safetensors").write_bytes(b"")


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def shard_missing(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def index_broken(folder):
    shard_missing(folder)
    (folder / "model.safetensors.index.json").write_text("{")


def nan(folder):
    def alter(found):
        found["model.layers.1.mlp.up_proj.weight"][3, 2] = torch.nan

    weights(folder, alter)


def infinite(folder):
    def alter(found):
        found["model.norm.weight"][1] = -torch.inf

    weights(folder, alter)


FAULTS = {
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "a model directory must hold weights, got .* without a safetensors file"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "a model directory must hold config.json, got .* without one"),
    "config is no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json must be JSON, got JSONDecodeError"),
    "config is a list": (lambda folder: (folder / "config.json").write_text("[1]"), "config.json must hold an object, got a list"),
    "config of no known kind": (lambda folder: (folder / "config.json").write_text("{}"), "a checkpoint must be one that transformers loads, got .*"),
    "truncated": (truncated, "model.safetensors must be a whole safetensors file, got .*"),
    "corrupt": (corrupt, "model.safetensors must be a whole safetensors file, got .*"),
    "empty": (empty, "model.safetensors must be a whole safetensors file, got .*"),
    "a pickle": (pickled, "weights must be safetensors, got pytorch_model.bin in .*: a pickle can run code when it is read.*save_pretrained"),
    "a shard missing": (shard_missing, "every file of the weights must be there, got no model-00002-of-00002.safetensors"),
    "a broken index": (index_broken, "model.safetensors.index.json must list the weights' files, got JSONDecodeError"),
    "other shapes": (
        lambda folder: change(folder, intermediate_size=21),
        r"config.json must fit the weights, got other shapes for model.layers.0.mlp.down_proj.weight.* and 7 more in LlamaForCausalLM",
    ),
    "more layers than weights": (
        lambda folder: change(folder, num_hidden_layers=4),
        r"config.json must fit the weights, got none for model.layers.3.*and 7 more of LlamaForCausalLM",
    ),
    "fewer layers than weights": (
        lambda folder: change(folder, num_hidden_layers=2),
        r"config.json must fit the weights, got model.layers.2.*for which LlamaForCausalLM has no place",
    ),
    "biases that the config denies": (
        lambda folder: weights(folder, lambda found: found.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(24)})),
        "config.json must fit the weights, got model.layers.0.self_attn.q_proj.bias, for which LlamaForCausalLM has no place",
    ),
    "a weight missing": (
        lambda folder: weights(folder, lambda found: found.pop("model.norm.weight")),
        "config.json must fit the weights, got none for model.norm.weight of LlamaForCausalLM",
    ),
    "NaN": (nan, "weights must be numbers, got NaN or infinity in model.layers.1.mlp.up_proj.weight"),
    "infinity": (infinite, "weights must be numbers, got NaN or infinity in model.norm.weight"),
    "a broken tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        "a tokenizer must be one that transformers loads, got .*Pass tokenizer=",
    ),
    "a size that is no number": (
        lambda folder: change(folder, hidden_size="wide"),
        "a checkpoint must be one that transformers loads, got .*hidden_size.*: TypeError: .*wide.*Correct its config.json",
    ),
    "heads that do not divide the width": (
        lambda folder: change(folder, num_attention_heads=5),
        "a checkpoint must be one that transformers loads, got .*ValueError: .*multiple of.*Correct its config.json",
    ),
    "no heads": (lambda folder: change(folder, num_attention_heads=0), "a checkpoint must be one that transformers loads, got .*Correct its config.json"),
    "a family of tomorrow": (
        lambda folder: change(folder, model_type="llama9", transformers_version="5.99.0"),
        r"a checkpoint must be of a family that transformers 5\.\S+ knows, got 'llama9' in .*; it was saved by 5.99.0. Install a newer transformers 5",
    ),
    "quantised, without the library": (
        lambda folder: change(folder, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 4, "zero_point": True, "version": "gemm"}),
        "a quantised checkpoint must find the library that reads it, got .* of 'awq': .* Install that, or open an unquantised checkpoint",
    ),
    "code of its own": (
        lambda folder: change(folder, model_type="homemade", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"}),
        "a model must not need code of its own, got .*, which does. Read that code, then pass trust_remote_code=True",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_checkpoint_is_said_in_one_line(folder, fault):
    spoil, message = FAULTS[fault]
    spoil(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        hw.open_model(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("source", "settings", "error", "message"),
    [
        ("demo:gpt5", {}, ArgumentError, r"a demo must be one of demo:minilm, demo:smollm2.*, got 'demo:gpt5'"),
        ("./nowhere", {}, ArgumentError, "source must exist, got './nowhere'. Pass a directory, a hub id, demo:minilm"),
        ("/a/b/c", {}, ArgumentError, "source must exist, got '/a/b/c'"),
        ("", {}, ArgumentError, "source must exist, got ''"),
        ("nobody/has-this-model", {}, CheckpointError, "source must be a directory or a model on the hub that can be reached, got 'nobody/has-this-model'"),
        (3, {}, ArgumentTypeError, "source must be a directory, a hub id, a demo's name or a .*, got int"),
        (__file__, {}, ArgumentError, "source must be a directory, got the file .*test_open.py"),
    ],
)
def test_nothing_of_this_name(source, settings, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        hw.open_model(source, **settings)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float31"}, "dtype must be a float type of torch, got 'float31'"),
        ({"dtype": torch.int8}, "dtype must be a float type of torch, got torch.int8"),
        ({"device": "abacus"}, "device must be one that torch has here, got 'abacus'"),
    ],
)
def test_no_such_dtype_or_device(folder, settings, message):
    with pytest.raises(ArgumentError, match=message):
        hw.open_model(folder, **settings)


@pytest.mark.parametrize("settings", [{"dtype": "float64"}, {"device": "cpu"}])
def test_a_loaded_model_is_left_as_it_is(settings):
    with pytest.raises(ArgumentError, match=f"{next(iter(settings))} must be left out for a model that is loaded already"):
        hw.open_model(build("llama"), **settings)


def test_nan_in_a_loaded_model():
    hf = build("gpt2")
    with torch.no_grad():
        hf.transformer.h[1].mlp.c_fc.bias[2] = torch.nan
    with pytest.raises(CheckpointError, match=r"got NaN or infinity in transformer.h.1.mlp.c_fc.bias"):
        hw.open_model(hf)
    assert check_numbers(build("gpt2").half()) is None


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("", ArgumentError, "text must have at least one token, got ''"),
        (["the", " \n"], ArgumentError, r"text must have at least one token, got ' \\n'"),
        ("the \udcff cat", ArgumentError, r"text must be Unicode, got 'the \\udcff cat' with half a surrogate pair"),
        ([], ArgumentError, "input must hold at least one text, got an empty list"),
        ({}, ArgumentError, "input must name at least one tensor, got an empty dict"),
        (["the", 3], ArgumentTypeError, "input must be a text, a list of texts, a tensor of token ids or a dict of tensors, got list"),
        (3, ArgumentTypeError, "input must be a text, .* got int"),
        (torch.zeros(1, 3), ArgumentTypeError, "token ids must be ints, got torch.float32"),
        (torch.zeros(1, 1, 3, dtype=torch.int64), ArgumentError, r"token ids must have shape \[tokens\] or \[batch, tokens\], got \[1, 1, 3\]"),
        (torch.zeros(1, 0, dtype=torch.int64), ArgumentError, r"token ids must hold at least one token, got shape \[1, 0\]"),
        ({"input_ids": torch.zeros(1, 0, dtype=torch.int64)}, ArgumentError, r"input_ids must hold at least one number, got shape \[1, 0\]"),
        (torch.tensor([[3, 97]]), ArgumentError, r"input_ids must be in 0..96, got 3..97. Use the model's own tokenizer"),
        (torch.tensor([[-1, 3]]), ArgumentError, r"input_ids must be in 0..96, got -1..3"),
        (torch.zeros(1, 65, dtype=torch.int64), ArgumentError, "text must fit the model's 64 positions, got 65 tokens. Shorten it"),
        ("the " * 70, ArgumentError, "text must fit the model's 64 positions, got 72 tokens"),
        ({"input_ids": ids(), "output_attentions": True}, ArgumentError, "input must not hold 'output_attentions', got bool. A run has every weight"),
        ({"input_ids": ids(), "past_key_values": object()}, ArgumentError, "input must not hold 'past_key_values', got object"),
        ({"input_ids": ids(), "mood": torch.ones(1)}, ArgumentError, "input must hold names that the model reads, got 'mood', which no part of BertModel does"),
        ({"input_ids": ids(), "token_type_ids": torch.full((2, 11), 9)}, ModelError, "BertModel must accept its input, got IndexError"),
    ],
)
def test_input_that_cannot_be_read(what, error, message, tokenizer):
    model = hw.open_model(build("bert", max_position_embeddings=64), tokenizer=tokenizer)
    with pytest.raises(error, match=message) as caught:
        model.run(what)
    assert "\n" not in str(caught.value)


def test_text_without_a_tokenizer():
    with pytest.raises(ModelError, match=r"This model has no tokenizer to read text with. Pass tokenizer= to open_model"):
        hw.open_model(build("bert")).run("the cat")


def test_a_text_that_the_tokenizer_drops():
    def nothing(text):
        return {"input_ids": [], "attention_mask": []}

    with pytest.raises(ArgumentError, match="got 'x', which the tokenizer drops"):
        hw.open_model(build("bert"), tokenizer=nothing).run("x")


def test_a_position_table_with_a_padding_row_has_fewer_positions():
    from transformers import RobertaConfig, RobertaModel

    hf = RobertaModel(RobertaConfig(**COMMON, max_position_embeddings=12, pad_token_id=1)).eval()
    assert hw.open_model(hf).run(torch.arange(3, 13)).statistics.sizes["query"] == 10
    with pytest.raises(HeadwiseError, match="text must fit the model's 10 positions, got 11 tokens"):
        hw.open_model(hf).run(torch.arange(3, 14))


def test_the_decoder_reads_the_text_too_where_no_other_is_given():
    run = hw.open_model(build("bart")).run(ids())
    assert run.parts["decoder.self"].sizes["query"] == 11
    assert any("the decoder reads the input too" in note for note in run.notes)
    assert run.parts["decoder.self"]["token"].values[0, 1:].tolist() == run.parts["encoder.self"]["token"].values[0, :-1].tolist()


def test_texts_padded_on_the_left_count_positions_from_their_first_token(tokenizer):
    words = AutoTokenizer.from_pretrained(tokenizer, padding_side="left")
    model = hw.open_model(build("gpt2"), tokenizer=words)
    both, alone = model.run(["the cat sat the cat", "cats"]), model.run("cats")
    got = both.statistics["entropy"].values[1, :, :, -4:]
    assert both.statistics["padding"].values[1].tolist() == [True] * 3 + [False] * 4
    torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(alone.statistics["entropy"].values[0]), rtol=1e-3, atol=1e-4)
    assert words.padding_side == "left"
    assert model.tokenizer is words


def test_code_that_comes_along_is_run_when_it_is_trusted(tmp_path):
    build("llama").save_pretrained(tmp_path / "trusted")
    folder = tmp_path / "trusted"
    code = (
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class Config(LlamaConfig):\n    model_type = 'homemade'\n"
        "class Model(LlamaForCausalLM):\n    config_class = Config\n"
    )
    (folder / "own.py").write_text(code)
    change(folder, model_type="homemade", architectures=["Model"], auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"})
    try:
        model = hw.open_model(folder, trust_remote_code=True)
        assert type(model.hf).__name__ == "Model"
        assert model.run(ids()).proof.passed
    finally:
        from transformers.utils import HF_MODULES_CACHE

        shutil.rmtree(f"{HF_MODULES_CACHE}/transformers_modules/trusted", ignore_errors=True)
