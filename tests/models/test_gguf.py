"""A GGUF is converted to what transformers itself makes of it, bit for bit."""

import json
import sys

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

import headwise as hw
from headwise.errors import CheckpointError, MissingPackage
from headwise.models.loading.gguf import _reader, config_of, name_of, unpermute_halves, write_weights

HEADS, GROUPS, WIDTH, INNER, LAYERS, WORDS = 4, 2, 64, 96, 2, 32
SHAPES = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH // 2, WIDTH), "attn_v": (WIDTH // 2, WIDTH), "attn_output": (WIDTH, WIDTH)}
SHAPES |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A Llama of two layers with 4-bit weights."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5000.0)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["w", "1", *(f"w{i}" for i in range(WORDS - 2))])
    writer.add_token_merges(["w 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    quantise(writer, "token_embd.weight", random.normal(size=(WORDS, WIDTH)), gguf.GGMLQuantizationType.Q8_0)
    quantise(writer, "output.weight", random.normal(size=(WORDS, WIDTH)), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", random.normal(size=WIDTH).astype(np.float32))
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", random.normal(size=WIDTH).astype(np.float32))
        for name, shape in SHAPES.items():
            quantise(writer, f"blk.{layer}.{name}.weight", random.normal(size=shape), gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def quantise(writer, name, array, kind):
    writer.add_tensor(name, gguf.quants.quantize(array.astype(np.float32), kind), raw_dtype=kind)


def test_weights_and_configuration_are_those_of_transformers(file, tmp_path):
    reader, done = _reader(file), []
    write_weights(reader, tmp_path / "model.safetensors", lambda: done.append(1))
    assert len(done) == len(reader.tensors) == 3 + LAYERS * 9
    right = LlamaForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    found = load_file(tmp_path / "model.safetensors")
    assert set(found) == set(right.state_dict())
    assert all(torch.equal(found[name], x) for name, x in right.state_dict().items())
    (tmp_path / "config.json").write_text(json.dumps(config_of(reader)))
    config = LlamaForCausalLM.from_pretrained(tmp_path).config
    for name in ("num_key_value_heads", "head_dim", "rope_parameters", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings", "pad_token_id"):
        assert getattr(config, name) == getattr(right.config, name), name


def test_halves_are_put_apart_again():
    whole = np.arange(24).reshape(12, 2)
    pairs = whole.reshape(3, 2, 2, 2).swapaxes(1, 2).reshape(12, 2)  # as GGUF stores three heads of width 4
    assert (unpermute_halves(pairs, 3) == whole).all()
    assert not (pairs == whole).all()


def test_another_model_s_tensor():
    with pytest.raises(CheckpointError, match=r"a GGUF tensor must be one of a Llama's, got 'blk.0.ssm_conv1d.weight'"):
        name_of("blk.0.ssm_conv1d.weight")


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GG" * 64)
    with pytest.raises(CheckpointError, match=r"broken.gguf must be a whole GGUF file, got ValueError"):
        _reader(tmp_path / "broken.gguf")


def test_the_package_that_reads_it_may_be_missing(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingPackage, match=r"a GGUF file must have the package gguf to be read, got none. pip install 'headwise\[demo\]'"):
        _reader(file)


def test_a_gguf_file_opens_as_it_is(file, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    model = hw.open_model(file)
    ids = np.array([3, 1, 4, 1, 5, 9])
    run = model.run({"input_ids": torch.from_numpy(ids)[None]})
    assert run.statistics.sizes == {"batch": 1, "layer": LAYERS, "head": HEADS, "query": 6}
    assert run.proof.passed, str(run.proof)
    assert len(list((tmp_path / "cache" / "models").glob("tiny-float32-*"))) == 2  # the model, and its lock
    hw.open_model(file)
    assert len(list((tmp_path / "cache" / "models").glob("tiny-float32-*"))) == 2


@pytest.mark.usefixtures("plain")
def test_a_gguf_file_without_the_package_is_said_in_one_line(file, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingPackage, match=r"a GGUF file must have the package gguf to be read, got none. pip install 'headwise\[demo\]'"):
        hw.open_model(file)
