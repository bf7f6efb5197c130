"""Shares of what heads write: a loud head is found, heads that are alike have an equal say, and a script that shares no code agrees."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headwise as hw
from headwise.experiments.claims import equal_say
from headwise.experiments.claims.equal_say import ENTRY
from headwise.experiments.measurements.write_summary import write_summary
from headwise.experiments.study import Study
from tests.analysis.toys import tokenizer, vocabulary
from tests.experiments import independent_equal_say as independent
from tests.experiments.claims.planted_models import alike, llama, loud, opened
from tests.experiments.sample_stories import stories

TEXTS = stories(8, 2)


def test_a_loud_head_is_found_in_every_layer():
    study = Study(loud(4), TEXTS)
    card = ENTRY.run(study)
    assert card.verdict == "cut"
    assert equal_say._ends(write_summary(study), 0).largest_head.tolist() == [4, 4, 4]
    assert card.numbers["layers"].value == 3
    assert card.numbers["loudest"].low > 1.5 * card.numbers["quietest"].high
    assert card.numbers["ratio"].value > 4
    assert len(card.plot.series[0].x) == 18 and card.plot.reference == pytest.approx(1 / 6)


def test_heads_that_are_alike_have_an_equal_say(plain):
    card = ENTRY.run(Study(alike(), TEXTS))
    assert card.verdict == "kept"
    assert card.numbers["loudest"].value == pytest.approx(1 / 6, abs=1e-6)
    assert card.numbers["evenness"].value == pytest.approx(1, abs=1e-9)


def test_some_layers_are_even(plain):
    hf = alike().hf
    hf.model.layers[1].self_attn.o_proj.weight.data.unflatten(1, (6, 4))[:, 3] *= 5
    card = ENTRY.run(Study(opened(hf), TEXTS))
    assert (card.verdict, card.correction) == ("corrected", "Not in 1 of 3 layers.")


def test_what_lies_on_the_bar_cannot_be_told(monkeypatch, plain):
    study = Study(loud(4), TEXTS)
    ends = equal_say._ends(write_summary(study), 0)
    monkeypatch.setattr(equal_say, "FACTOR", float((ends.largest.mean / ends.smallest.mean).median()))
    card = ENTRY.run(study)
    assert card.verdict == "inconclusive"
    assert "of 3 layers there are too few texts to decide whether the ratio exceeds" in card.summary


def test_one_head_has_nobody_beside_it():
    sizes = {"n_embd": 24, "n_head": 1, "n_layer": 2, "vocab_size": len(vocabulary()), "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    card = ENTRY.run(Study(hw.open_model(GPT2LMHeadModel(GPT2Config(**sizes)), tokenizer(False)), TEXTS))
    assert card.verdict == "inconclusive"
    assert card.summary == "Every layer has a single head, so shares within a layer cannot be compared."


def test_too_few_texts():
    card = ENTRY.run(Study(opened(llama()), TEXTS[:5]))
    assert card.summary == "How much each head writes needs at least 6 texts to be measured; got 5. Give more texts."


def test_an_independent_script_finds_the_same(plain):
    model = loud(4)
    study = Study(model, TEXTS)
    card = ENTRY.run(study)
    found = independent.found(*independent.shares(model.hf, [torch.tensor([model.tokenizer(text)["input_ids"]]) for text in study.texts]))
    for name in ("loudest", "quietest", "ratio", "evenness"):
        assert found[name] == pytest.approx(card.numbers[name].value, rel=1e-4), name
