"""A head alone against the definition; tying against the model that hw.TieHeads makes; and what it costs where a head's work is known."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import WritesRefused
from headwise.experiments.claims import one_head_is_single
from headwise.experiments.claims.one_head_is_single import ENTRY
from headwise.experiments.measurements import single_head as alone
from headwise.experiments.measurements.single_head import losses_tied, single_head_check
from headwise.experiments.study import Study
from tests.analysis.plain import loss
from tests.analysis.toys import encoder, tokenizer, vocabulary
from tests.experiments.claims.planted_models import alike, copying, llama, opened
from tests.experiments.sample_stories import stories

TEXTS = stories(6, 2)
AGAIN = [f"{text} {text}" for text in stories(5, 2)]


@pytest.fixture(scope="module")
def plain_study():
    return Study(opened(llama()), TEXTS)


def test_a_head_alone_says_what_it_says_among_the_others(plain_study):
    card = ENTRY.run(plain_study)
    assert card.verdict in ("kept", "corrected")
    assert card.numbers["heads alone"].value == 18
    assert card.numbers["gap"].value < 1
    assert card.numbers["patterns apart"].value > 0.1
    assert card.numbers["patterns apart, tied"].value < 1e-6
    assert card.numbers["edit"].value < 1e-4
    assert (card.texts, card.measure) == (6, "next")


def test_a_head_that_says_something_else_alone_is_caught(monkeypatch, plain_study, plain):
    true = alone.compute

    def wrong(query, key, value, call, **options):
        return true(query, key, value.roll(1, 2), call, **options)

    monkeypatch.setattr(alone, "compute", wrong)
    card = ENTRY.run(plain_study)
    assert card.verdict == "cut"
    assert card.summary.startswith("A head computed alone differs from the same head in the model by ")


def test_tied_losses_are_those_of_edited_models():
    model = opened(llama())
    ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
    found = losses_tied(Evaluator(model, "next").open(ids), [0, 1, 2])
    edits = [[hw.TieHeads(0)], [hw.TieHeads(1)], [hw.TieHeads(2)], [hw.TieHeads(0), hw.TieHeads(1), hw.TieHeads(2)]]
    known = [loss(model.edit(some, mode="weights").hf, {"input_ids": ids}) for some in edits]
    assert found.tolist() == pytest.approx(known, abs=1e-4)
    assert abs(found[3] - found[0]) > 1e-3


def test_distances_by_hand():
    model = opened(llama())
    ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
    found = single_head_check(Evaluator(model, "next").open(ids))
    model.hf.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model.hf(input_ids=ids, output_attentions=True).attentions
    for layer in range(3):
        every = maps[layer][0].double()
        pairs = [(every[one] - every[other]).abs().sum(-1).mean() / 2 for one in range(6) for other in range(one)]
        assert found.distance[layer] == pytest.approx(float(torch.stack(pairs).mean()), abs=1e-5)


def test_tying_is_felt_where_another_head_does_the_work():
    card = ENTRY.run(Study(copying(head=1), AGAIN))
    assert card.verdict == "kept"
    assert card.numbers["layers"].value == 2
    assert card.numbers["all layers"].low > 0.1


def test_tying_to_the_head_that_does_the_work_costs_nothing(plain):
    card = ENTRY.run(Study(copying(head=0), AGAIN))
    assert (card.verdict, card.correction) == ("corrected", "Tied heads behave as one head, but only in 0 of 2 layers does tying have a measurable cost.")
    assert card.numbers["all layers"].value == pytest.approx(0, abs=1e-4)


def test_heads_that_are_alike_look_alike_before_too(plain):
    card = ENTRY.run(Study(alike(), TEXTS[:4]))
    assert card.numbers["patterns apart"].value < 1e-6
    assert card.numbers["all layers"].value == pytest.approx(0, abs=1e-4)


def test_an_encoder_is_measured_by_its_own_output(plain):
    card = ENTRY.run(Study(encoder(), TEXTS[:4]))
    assert card.measure == "masked"
    assert card.numbers["edit"].value < 1e-3


def test_tied_patterns_that_differ_are_caught(monkeypatch, plain_study, plain):
    monkeypatch.setattr(one_head_is_single, "SAME", -1.0)
    assert ENTRY.run(plain_study).verdict == "cut"


def test_one_head_cannot_be_tied():
    sizes = {"n_embd": 24, "n_head": 1, "n_layer": 2, "vocab_size": len(vocabulary()), "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    card = ENTRY.run(Study(hw.open_model(GPT2LMHeadModel(GPT2Config(**sizes)), tokenizer(False)), TEXTS))
    assert card.verdict == "inconclusive"
    assert card.summary.startswith("Each layer has one head, which is single-head attention.")


def test_what_is_gated_is_refused():
    passage = Evaluator(opened(llama()), "next").open(torch.arange(3, 12))
    layout = passage.forward.session.layout
    object.__setattr__(layout.sites[1].output, "exact", False)
    with pytest.raises(WritesRefused, match=r"The z of model\.layers\.1\.self_attn is changed before W_O reads it, perhaps by a gate\. Use hw\.Tie"):
        losses_tied(passage, [0, 1])


def test_too_few_texts():
    assert ENTRY.run(Study(opened(llama()), TEXTS[:3])).summary == "The cost of tying heads needs at least 4 texts to be measured; got 3. Give more texts."
