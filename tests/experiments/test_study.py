import pytest
import torch
from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

import headwise as hw
from headwise.errors import ArgumentError, ModelError
from headwise.experiments.annotation_files import AnnotationFiles, annotation_files
from headwise.experiments.bible_text import COUNT
from headwise.experiments.study import Study
from tests.analysis.toys import decoder, encoder, tokenizer, vocabulary
from tests.experiments.sample_stories import stories
from tests.models.tiny import drawn


@pytest.fixture(scope="module")
def model():
    return decoder()


@pytest.fixture(scope="module")
def study(model):
    return Study(model, stories(6), seed=3)


def test_what_it_knows_of_model_and_texts(study):
    assert (study.loss, study.part, len(study.heads), study.own_texts) == ("next", "self", 18, True)
    assert study.heads[7] == (1, 1)
    assert study.texts == stories(6)
    assert study.token_count == sum(len(study.model.tokenizer(text)["input_ids"]) for text in study.texts)
    assert study.counts.tolist() == [len(study.model.tokenizer(text)["input_ids"]) - 1 for text in study.texts]


def test_the_base_is_the_models_own_loss(study):
    for text, base in zip(study.texts, study.base.tolist(), strict=True):
        ids = torch.tensor([study.model.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            assert float(study.model.hf(input_ids=ids, labels=ids).loss) == pytest.approx(base, abs=1e-5)


def test_losses_without_heads_are_those_of_an_edited_model(study):
    heads = {(0, 1), (2, 5), (2, 0)}
    edited = study.model.edit([hw.Ablate(layer, head) for layer, head in sorted(heads)])
    found = study.losses(heads)
    for text, loss in zip(study.texts, found.tolist(), strict=True):
        ids = torch.tensor([study.model.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            assert float(edited.hf(input_ids=ids, labels=ids).loss) == pytest.approx(loss, abs=1e-4)
    assert (found - study.base).abs().min() > 1e-4


def test_many_plans_at_once_are_each_alone(study):
    plans = torch.stack([study.head_mask({(1, 2)}), study.head_mask([]), study.head_mask(study.heads)])
    found = study.losses_of(plans)
    assert found.shape == (6, 3)
    assert torch.allclose(found[:, 0], study.losses({(1, 2)}), atol=1e-6)
    assert torch.equal(found[:, 1], study.base)


def test_gradient_and_shares(study):
    assert study.gradient.attrs["texts"] == 6
    assert study.shares.shape == (6, 3, 6)
    assert torch.allclose(study.shares.sum(2), torch.ones(6, 3, dtype=torch.float64), atol=1e-4)
    ranked = hw.rank(study.model, study.texts[2], "write")
    assert torch.allclose(study.shares[2], torch.from_numpy(ranked.effect.values))


def test_heads_of_a_large_model_are_silenced_on_some_of_the_texts(model, monkeypatch):
    small = Study(model, stories(12), seed=3)
    assert small.ablation_texts == list(range(12))
    monkeypatch.setattr("headwise.experiments.study.ABLATION_FLOPS", 0)
    large = Study(model, stories(12), seed=3)
    assert len(large.ablation_texts) == len(large.effects) == 8
    assert set(large.ablation_texts) < set(range(12))
    assert torch.allclose(large.effects, small.effects[large.ablation_texts], atol=1e-6)
    assert large.tokens_of(large.ablation_texts) < large.token_count == small.token_count


def test_runs_are_made_once_and_told_of(model):
    told = []
    study = Study(model, stories(3), progress=lambda *what: told.append(what))
    assert study.runs() is study.runs()
    assert [run.tokens[0] == model.tokenizer.tokenize(text) for run, text in zip(study.runs(), study.texts, strict=True)] == [True] * 3
    assert told == [("running texts", 1, 3), ("running texts", 2, 3), ("running texts", 3, 3)]


def test_roles_are_cast_on_the_texts(model, monkeypatch):
    monkeypatch.setattr("headwise.experiments.study.ROLE_TEXTS", 10)
    told = []
    study = Study(model, stories(9, 8), length=60, progress=lambda role, done, total: told.append(role))
    cast = study.roles
    assert {"induction", "position"} <= set(cast["of_role"].values.tolist())
    assert cast.attrs["left_out"]["grammar"] == "no sentences were given"
    assert "role duplicate_token, induction" in told and any("position" in role for role in told)


def test_an_encoder_without_a_loss_is_measured_by_how_far_its_output_turns():
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 20, "num_hidden_layers": 2, "max_position_embeddings": 600}
    plain = hw.open_model(drawn(BertModel(BertConfig(vocab_size=len(vocabulary()), **sizes))), tokenizer(True))
    study = Study(plain, stories(3))
    assert study.loss == "cosine" and study.gradient is None
    assert study.base.abs().max() < 1e-5
    assert study.losses({(0, 0)}).min() > 1e-5
    masked = Study(encoder(), stories(3))
    assert masked.loss == "masked" and masked.gradient is not None


def test_of_an_encoder_and_a_decoder_the_first_that_looks_at_itself():
    torch.manual_seed(0)
    config = T5Config(vocab_size=len(vocabulary()), d_model=12, d_kv=4, d_ff=8, num_layers=2, num_heads=3, decoder_start_token_id=0, pad_token_id=3)
    study = Study(hw.open_model(drawn(T5ForConditionalGeneration(config)), tokenizer(True)), stories(3))
    assert study.part == "encoder.self"
    assert len(study.heads) == 6
    assert study.losses({(1, 1)}).shape == (3,)


def test_passes_beyond_the_memory_are_made_again(model, monkeypatch):
    wide, narrow = Study(model, stories(3)), Study(model, stories(3))
    assert wide.passage(1) is wide.passage(1)
    kept = wide.losses({(0, 0)})
    monkeypatch.setattr("headwise.experiments.study.CACHE_BYTES", 0)
    assert torch.equal(kept, narrow.losses({(0, 0)}))
    assert narrow.passage(1) is not narrow.passage(1)


def test_without_texts_there_are_ours(model):
    study = Study(decoder())
    assert len(study.texts) == COUNT and not study.own_texts
    assert all(len(model.tokenizer(text)["input_ids"]) <= study.length for text in study.texts)


def test_too_few_texts_for_a_verdict(study):
    assert study.too_few_texts(6, "it") is None
    card = study.too_few_texts(7, "the share of heads that can be removed")
    assert card.verdict == "inconclusive"
    assert card.summary == "The share of heads that can be removed needs at least 7 texts to be measured; got 6. Give more texts."
    assert (card.texts, card.tokens) == (6, study.token_count)


def test_heads_that_there_are_not(study):
    with pytest.raises(ArgumentError, match=r"heads must be of the part self of this model, got \(0, 6\)\. Look at study\.heads"):
        study.losses({(0, 6)})
    with pytest.raises(ArgumentError, match=r"heads must be of the part self of this model, got \(-1, 0\)"):
        study.head_mask({(-1, 0)})


def test_a_model_that_reads_no_text():
    with pytest.raises(ModelError, match=r"This model has no tokenizer, which claims need to read text\. Pass tokenizer= to open_model"):
        _ = Study(hw.open_model(decoder().hf), stories(3)).texts


def test_annotation_files_as_they_were_named(tmp_path):
    found = annotation_files(conllu=str(tmp_path / "a"), winobias=[tmp_path / "b", str(tmp_path / "c")])
    assert found == AnnotationFiles(tmp_path / "a", None, (tmp_path / "b", tmp_path / "c"))
    assert found.files == (tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert annotation_files(gap=tmp_path / "g", winobias=tmp_path / "w").files == (tmp_path / "g", tmp_path / "w")
