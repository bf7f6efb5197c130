from pathlib import Path

import pytest
import torch

from headwise.errors import ModelError
from headwise.experiments.card import Card, Number
from headwise.experiments.result_cache import ResultCache, code_fingerprint, file_fingerprints, model_fingerprint
from tests.analysis.toys import decoder, encoder, tokenizer

CARD = Card("kept", "It holds.", {"share": Number(0.5, low=0.25)})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_card_is_found_again_by_all_that_it_depends_on():
    kept = ResultCache({"model": "a", "seed": 0})
    assert kept.read("sink") is None
    kept.write("sink", CARD, 1.5)
    assert ResultCache({"seed": 0, "model": "a"}).read("sink") == (CARD, 1.5)
    assert ResultCache({"model": "a", "seed": 1}).read("sink") is None
    assert kept.read("other") is None


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '{"card": {"verdict": "maybe"}, "seconds": 1}', '{"card": 7, "seconds": 1}'])
def test_a_broken_file_is_measured_again(folder, text):
    kept = ResultCache({"model": "a"})
    kept.write("sink", CARD, 1.5)
    (path,) = (folder / "claims").iterdir()
    path.write_text(text)
    assert kept.read("sink") is None
    kept.write("sink", CARD, 2.5)
    assert kept.read("sink") == (CARD, 2.5)


def test_a_cache_that_cannot_be_written_is_said(folder):
    folder.write_text("a file, no folder")
    with pytest.raises(ModelError, match=r"the cache must be writable, got .* for '.*cache/claims/sink-.*'\. Set HEADWISE_CACHE to another folder"):
        ResultCache({}).write("sink", CARD, 1.0)


def test_a_disk_that_is_full_leaves_nothing_half_written(folder, monkeypatch):
    def full(path, data):
        with path.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelError, match="the cache must be writable, got No space left on device"):
        ResultCache({}).write("sink", CARD, 1.0)
    assert list((folder / "claims").iterdir()) == []


def test_one_number_of_one_weight_changes_the_print():
    model = decoder()
    before = model_fingerprint(model.hf, model.tokenizer)
    assert model_fingerprint(decoder().hf, decoder().tokenizer) == before
    weight = model.hf.model.layers[1].self_attn.v_proj.weight
    with torch.no_grad():
        weight[-1, -1] += 1e-3
    assert model_fingerprint(model.hf, model.tokenizer) != before
    assert (
        len(
            {
                before,
                model_fingerprint(decoder().hf, tokenizer(True)),
                model_fingerprint(decoder().hf, None),
                model_fingerprint(encoder().hf, encoder().tokenizer),
            }
        )
        == 4
    )


def test_prints_of_bfloat16_and_of_settings():
    model = decoder().hf
    assert model_fingerprint(model.bfloat16(), None) != model_fingerprint(decoder().hf, None)
    other = decoder().hf
    other.config.rms_norm_eps = 0.1
    assert model_fingerprint(other, None) != model_fingerprint(decoder().hf, None)


def test_prints_of_files_and_code(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    assert file_fingerprints([one]) != file_fingerprints([two])
    assert file_fingerprints([tmp_path / "none"]) == [str(tmp_path / "none")]
    assert code_fingerprint() == code_fingerprint() and len(code_fingerprint()) == 32
