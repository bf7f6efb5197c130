"""What silencing a head costs: against an independent script, and on a model in which one head does all."""

from statistics import median

import pytest
import torch
from transformers import BertModel

import headwise as hw
from headwise.analysis.ablation.resilience import self_repair
from headwise.experiments.card import Number
from headwise.experiments.claims import others_carry
from headwise.experiments.study import Study
from tests.analysis.toys import decoder, encoder, tokenizer
from tests.experiments.independent_others_carry import costs
from tests.experiments.sample_stories import stories

TEXTS = stories(9)


@pytest.fixture(scope="module")
def study():
    return Study(decoder(), TEXTS, length=20)


@pytest.fixture(scope="module")
def card(study):
    return others_carry.run(study)


def ids(study: Study) -> list[torch.Tensor]:
    return [torch.tensor([study.model.tokenizer(text)["input_ids"]]) for text in study.texts]


def test_costs_are_those_of_an_independent_script(study, card):
    known = costs(study.model.hf, ids(study))
    found = others_carry.AblationCosts(study.effects / others_carry.loss_scale(study), study.counts, 0)
    assert torch.allclose(found.interval.mean, torch.tensor(known).double(), atol=2e-6)
    flat = [value for row in known for value in row]
    assert card.numbers["median"].value == pytest.approx(median(flat), abs=2e-6)
    assert (card.measure, card.texts, card.tokens) == ("next", 9, study.token_count)


@pytest.mark.usefixtures("plain")
def test_costs_of_an_encoder_are_those_of_an_independent_script():
    hf = BertModel(encoder().hf.config, add_pooling_layer=False).eval()
    hf.load_state_dict(encoder().hf.bert.state_dict())
    study = Study(hw.open_model(hf, tokenizer(True)), TEXTS, length=20)
    assert study.loss == "cosine"
    found = others_carry.run(study)
    known = [value for row in costs(hf, ids(study)) for value in row]
    assert found.numbers["median"].value == pytest.approx(median(known), rel=0.02)  # a mean over texts by tokens, in float32
    assert "the output turns by" in found.summary
    assert "repaired" not in found.numbers


@pytest.mark.usefixtures("plain")
def test_a_head_that_does_all_is_the_one_that_is_needed():
    model = decoder()
    with torch.no_grad():
        for number, layer in enumerate(model.hf.model.layers):
            for head in range(6):
                if (number, head) != (1, 2):
                    layer.self_attn.o_proj.weight[:, 4 * head : 4 * head + 4] = 0
    study = Study(model, TEXTS, length=20)
    study.loss = "kl"  # what it says cannot be worse than nothing for what it says itself
    card = others_carry.run(study)
    assert (card.verdict, card.correction) == ("corrected", "Most of the time.")
    assert (card.numbers["needed"].low, card.numbers["needed"].value, card.numbers["needed"].high) == (1, 1, 1)
    assert card.numbers["median"].value == pytest.approx(0, abs=1e-6)
    assert card.numbers["top_tenth"].value == pytest.approx(1, abs=1e-3)
    assert "1 of 18 heads certainly costs over 0.01 (nats): 1.2." in card.summary
    assert len(card.plot.series[0].x) >= 1


@pytest.mark.usefixtures("plain")
def test_heads_that_say_nothing_can_all_go():
    model = decoder()
    with torch.no_grad():
        for layer in model.hf.model.layers:
            layer.self_attn.o_proj.weight.zero_()
    study = Study(model, TEXTS, length=20)
    card = others_carry.run(study)
    assert card.verdict == "kept"
    assert card.numbers["needed"].high == 0
    assert "None of 18 heads certainly costs over 1 %." in card.summary
    assert "top_tenth" not in card.numbers


def test_a_median_head_that_is_needed():
    card_of = others_carry._verdict
    assert card_of(Number(0.05, low=0.02, high=0.08), Number(9, low=7, high=12)) == "cut"
    assert card_of(Number(0.005, low=0.001, high=0.009), Number(3, low=0, high=4)) == "inconclusive"
    assert "About" in others_carry._needed(Number(0.012, low=0.002, high=0.022), Number(3, low=0, high=4), 10)
    assert "Up to 4 heads" in others_carry._needed(Number(0.001, low=0.0, high=0.002), Number(3, low=0, high=4), 10)


def test_self_repair_is_what_all_heads_tell(study, card):
    """The chosen heads alone, against all heads of `hw.resilience` on the same texts."""
    one, other = others_carry.split_halves(len(TEXTS), 0)
    chosen = others_carry._largest_direct(study, one[:4])
    found = [self_repair(study.passage(int(number))) for number in other]
    direct, total = (float(sum(getattr(x, name)[chosen].sum() for x in found)) for name in ("direct", "total"))
    assert int(chosen.sum()) == 2
    assert card.numbers["repaired"].value == pytest.approx(1 - total / direct, rel=1e-4)


@pytest.mark.parametrize(
    ("ends", "words"),
    [((0.2, 0.4), "compensates for 30 %"), ((-0.4, -0.2), "does not compensate"), ((-0.2, 0.4), "not certain whether")],
)
def test_what_is_said_of_repair(ends, words):
    assert words in others_carry._summary_repair(Number(sum(ends) / 2 if words != "compensates for 30 %" else 0.3, low=ends[0], high=ends[1]))


@pytest.mark.usefixtures("plain")
def test_too_few_texts():
    card = others_carry.run(Study(decoder(), TEXTS[:3], length=20))
    assert card.verdict == "inconclusive"
    assert card.summary == "The cost of ablating a head needs at least 8 texts to be measured; got 3. Give more texts."
