"""Weight on the first token and losses in windows, by hand; a planted sink is found, and an untrained model has none."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.experiments.claims import first_token_sink
from headwise.experiments.claims.first_token_sink import ENTRY, _verdict
from headwise.experiments.measurements.first_token_mass import first_token_mass as measured
from headwise.experiments.measurements.windowed_model import behind, losses_in_windows, windowed
from headwise.experiments.study import Study
from tests.analysis.toys import encoder, tokenizer, vocabulary
from tests.experiments.claims.planted_models import llama, opened, resting
from tests.experiments.sample_stories import stories
from tests.models.tiny import build, ids

TEXTS = stories(8, 5)


def test_a_planted_sink_is_found_and_nothing_else():
    study = Study(resting(), TEXTS)
    card = ENTRY.run(study)
    assert card.verdict == "kept"
    weight = torch.stack([measured(study.passage(number)).weight for number in range(8)])
    assert first_token_sink._sink_heads(weight, study).tolist() == [[True, False]]
    assert card.numbers["resting"].value == 1
    assert card.numbers["their weight"].low > 0.8
    assert card.numbers["their write"].high < 0.6
    assert card.numbers["another word"].low > 0.8
    assert card.numbers["cost"].low > 0.01
    full, without, with_first = (card.numbers[name].value for name in ("loss", "loss, window", "loss, window with the first"))
    assert full < with_first < full + 0.3 * (without - full)
    assert [series.name for series in card.plot.series] == ["weight", "write"]


def test_an_untrained_model_has_no_sink(plain):
    torch.manual_seed(0)
    sizes = {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 96, "num_hidden_layers": 3}
    hf = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary()), **sizes)).eval()
    card = ENTRY.run(Study(hw.open_model(hf, tokenizer(False)), TEXTS))
    assert card.verdict == "cut"
    assert card.numbers["resting"].value == 0
    assert card.numbers["weight"].value == pytest.approx(card.numbers["equal"].value, abs=0.01)
    assert "their weight" not in card.numbers and "another word" not in card.numbers


def test_weight_and_write_by_hand():
    model = opened(llama())
    ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
    found = measured(Evaluator(model, "next").open(ids))
    model.hf.set_attn_implementation("eager")
    layer, values = model.hf.model.layers[1].self_attn, []
    layer.v_proj.register_forward_hook(lambda module, args, result: values.append(result[0].detach().double()))
    with torch.no_grad():
        maps = model.hf(input_ids=ids, output_attentions=True).attentions[1][0].double()
    length = ids.shape[1]
    for head in range(6):
        value = values[0][:, 4 * (head // 3) : 4 * (head // 3) + 4]
        carried = (value @ layer.o_proj.weight.detach().double()[:, 4 * head : 4 * head + 4].t()).norm(dim=1)
        rows = maps[head, 1:] * carried
        assert float(found.weight[1, head]) == pytest.approx(float(maps[head, 1:, 0].mean()), abs=1e-5)
        assert float(found.written[1, head]) == pytest.approx(float((rows[:, 0] / rows.sum(1)).mean()), abs=1e-4)
        assert float(found.equal[1, head]) == pytest.approx(sum(1 / (place + 1) for place in range(1, length)) / (length - 1))


@pytest.mark.parametrize(("window", "first"), [(5, 0), (3, 2)])
def test_losses_in_windows_are_those_of_a_mask(window, first):
    model = opened(llama())
    ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
    length = ids.shape[1]
    passage = Evaluator(model, "next").open(ids)
    modules = [place.module for place in passage.places]
    own, found = losses_in_windows(passage, [windowed(model.hf, modules, window, first)], 5)
    here, there = torch.arange(length)[:, None], torch.arange(length)
    seen = (there <= here) & ((here - there < window) | (there < first))
    model.hf.set_attn_implementation("eager")
    for plane, known in ((there <= here, own), (seen, found)):
        mask = torch.zeros(length, length).masked_fill(~plane, torch.finfo(torch.float32).min)[None, None]
        with torch.no_grad():
            logits = model.hf(input_ids=ids, attention_mask=mask).logits[0].double()
        assert float(torch.nn.functional.cross_entropy(logits[4:-1], ids[0, 5:])) == pytest.approx(known, abs=1e-4)
    assert abs(own - found) > 1e-3


def test_an_encoder_looks_both_ways(plain):
    card = ENTRY.run(Study(encoder(), TEXTS))
    assert card.measure == "masked"
    assert "on the first token (always [CLS] here);" in card.summary
    assert "another word" not in card.numbers
    assert card.numbers["loss, window"].value != card.numbers["loss"].value
    passage = Evaluator(encoder(), "masked").open(TEXTS[0])
    assert float(measured(passage).equal[0, 0]) == pytest.approx(1 / passage.forward.cache.wo_inputs[0].shape[1])


def test_which_tokens_a_window_is_judged_by():
    text = ids(batch=1, length=11)
    assert behind(Evaluator(hw.open_model(build("llama")), "next").open(text), 5).tokens == 6
    for name, loss, part in (("t5", "next", "encoder.self"), ("llama", "kl", None), ("bert", "cosine", None)):
        passage = Evaluator(hw.open_model(build(name)), loss, part).open(text)
        assert behind(passage, 5) is passage.loss


def test_texts_that_are_too_short_for_a_window(plain):
    card = ENTRY.run(Study(resting(), TEXTS, length=20))
    assert "Windows could not be applied: 6 texts of at least 32 tokens are needed, got 0." in card.summary
    assert "cost" not in card.numbers
    assert card.verdict == "inconclusive"


def test_attention_that_cannot_be_narrowed(monkeypatch, plain):
    monkeypatch.setattr(first_token_sink, "hook_refusal", lambda head_map, place: f"{place.module} computes its attention itself")
    card = ENTRY.run(Study(resting(), TEXTS))
    assert "Windows could not be applied: transformer.h.0.attn computes its attention itself." in card.summary


def test_too_few_texts():
    card = ENTRY.run(Study(resting(), TEXTS[:5]))
    assert card.summary == "The weight on the first token needs at least 6 texts to be measured; got 5. Give more texts."


@pytest.mark.parametrize(
    ("heads", "draws_less", "needed", "verdict"),
    [
        (0.04, "above", "above", ("cut", "")),
        (0.05, "above", "above", ("kept", "")),
        (0.5, "below", "above", ("corrected", "Heads attend to it, and an even larger share of what they write comes from it.")),
        (0.5, "above", "below", ("corrected", "Heads attend to it, but the model does not need it.")),
        (0.5, "unsure", "above", ("inconclusive", "")),
        (0.5, "above", "unsure", ("inconclusive", "")),
    ],
)
def test_the_rule(heads, draws_less, needed, verdict):
    assert _verdict(heads, draws_less, needed) == verdict
