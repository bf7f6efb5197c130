"""Heads that say something and write nothing: none in a random model, exactly those that were made so by hand."""

import pytest
import torch
from transformers import BertModel

import headwise as hw
from headwise.experiments.claims import muted_at_the_gate as gate
from headwise.experiments.study import Study
from tests.analysis.toys import decoder, encoder, tokenizer
from tests.experiments.sample_stories import stories

TEXTS = stories(6)


@pytest.fixture(scope="module")
def card():
    return gate.run(Study(decoder(), TEXTS, length=20))


def test_a_random_model_has_none(card):
    assert card.verdict == "kept"
    assert (card.numbers["muted"].low, card.numbers["muted"].value, card.numbers["muted"].high) == (0, 0, 0)
    assert card.numbers["narrowest"].value > 0.5
    assert "Of the model's own 18 heads none is muted in this sense" in card.summary


def test_the_control_is_found(card):
    assert card.numbers["control_writes"].value == 0
    assert card.numbers["control_same"].value == card.numbers["control_found"].value == 1
    assert card.numbers["control_learns"].value == 0
    assert "so training could not change them" in card.summary
    said, wrote = card.plot.series[1].x[0], card.plot.series[1].y[0]
    assert said > 0.5 and wrote < 0.25


def planted(factor: float) -> "hw.Model":
    """Head 1.4's block of W_O, times a factor."""
    model = decoder()
    with torch.no_grad():
        model.hf.model.layers[1].self_attn.o_proj.weight[:, 16:20] *= factor
    return model


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("factor", "count"), [(0.0, 1), (0.05, 1), (0.8, 0)])
def test_a_planted_one_is_found_and_no_other(factor, count):
    card = gate.run(Study(planted(factor), TEXTS, length=20))
    assert (card.numbers["muted"].low, card.numbers["muted"].value, card.numbers["muted"].high) == (count, count, count)
    assert ("one (1.4) is muted in this sense" in card.summary) == bool(count)


@pytest.mark.usefixtures("plain")
def test_a_head_of_small_values_says_little_and_is_not_muted_at_the_gate():
    model = decoder()
    with torch.no_grad():
        model.hf.model.layers[2].self_attn.v_proj.weight[0:4] *= 0.01  # key head 0: heads 0, 1 and 2
    card = gate.run(Study(model, TEXTS, length=20))
    assert card.numbers["muted"].value == 0
    assert card.numbers["say_little"].value == 3
    assert "3 have a small z already before W_O" in card.summary


@pytest.mark.usefixtures("plain")
def test_a_model_whose_loss_has_no_slope():
    hf = BertModel(encoder().hf.config, add_pooling_layer=False).eval()
    hf.load_state_dict(encoder().hf.bert.state_dict())
    card = gate.run(Study(hw.open_model(hf, tokenizer(True)), TEXTS, length=20))
    assert card.verdict == "kept"
    assert "control_learns" not in card.numbers
    assert "training" not in card.summary


@pytest.mark.usefixtures("plain")
def test_a_control_that_fails_cuts_the_claim(monkeypatch):
    monkeypatch.setattr(gate, "_same", lambda before, after, layer: False)
    card = gate.run(Study(decoder(), TEXTS, length=20))
    assert card.verdict == "cut"
    assert "the control failed" in card.summary


@pytest.mark.usefixtures("plain")
def test_one_head_a_layer_has_no_neighbour():
    from transformers import LlamaForCausalLM

    from tests.models.tiny import drawn

    config = decoder().hf.config.__class__(**{**decoder().hf.config.to_dict(), "num_attention_heads": 1, "num_key_value_heads": 1})
    card = gate.run(Study(hw.open_model(drawn(LlamaForCausalLM(config)), tokenizer(False)), TEXTS, length=20))
    assert (card.verdict, card.summary) == ("inconclusive", "Every layer has a single head, so there is no other to compare it with.")


@pytest.mark.usefixtures("plain")
def test_too_few_texts():
    assert gate.run(Study(decoder(), TEXTS[:2], length=20)).summary.startswith("The size of z and of the writes needs at least 6 texts to be measured; got 2.")
