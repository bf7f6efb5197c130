"""What is in a slice of W_O's output, by hand; where head h alone writes into slice h the sentence holds."""

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import WritesRefused
from headwise.experiments.claims import slice_after_output
from headwise.experiments.claims.slice_after_output import ENTRY
from headwise.experiments.measurements.output_slicing import losses_sliced
from headwise.experiments.measurements.write_summary import write_summary
from headwise.experiments.study import Study
from tests.analysis.plain import sliced_behind
from tests.analysis.toys import tokenizer, vocabulary
from tests.experiments import independent_slice_after_output as independent
from tests.experiments.claims.planted_models import each_its_own, llama, opened
from tests.experiments.sample_stories import stories
from tests.models.tiny import drawn

TEXTS = stories(5, 2)


@pytest.fixture(scope="module")
def mixed():
    return Study(opened(llama()), TEXTS)


@pytest.fixture(scope="module")
def card(mixed):
    return ENTRY.run(mixed)


def test_a_slice_of_mixed_heads_is_no_head(card):
    assert card.verdict == "cut"
    assert card.numbers["own"].value == pytest.approx(1 / 6, abs=0.1)
    assert card.numbers["equal"].value == pytest.approx(1 / 6)
    assert card.numbers["factor"].value > 1.1
    assert card.measure == "kl"
    assert [series.name for series in card.plot.series] == ["ablated before W_O", "slice of W_O's output zeroed"]


def test_where_each_head_writes_into_its_slice_alone_it_is_the_head(plain):
    card = ENTRY.run(Study(each_its_own(), TEXTS))
    assert card.verdict == "kept"
    assert card.numbers["own"].value == pytest.approx(1, abs=1e-6)
    assert card.numbers["cosine"].value == pytest.approx(1, abs=1e-5)
    assert card.numbers["factor, most"].value == pytest.approx(1, rel=1e-2)
    assert card.numbers["order"].value > 0.98


def test_where_most_of_a_slice_is_the_heads_it_is_mostly_so(plain):
    hf, own = llama(), each_its_own().hf
    for mixed, alone in zip(hf.model.layers, own.model.layers, strict=True):
        mixed.self_attn.o_proj.weight.data.mul_(0.25).add_(alone.self_attn.o_proj.weight.data)
    card = ENTRY.run(Study(opened(hf), TEXTS))
    assert 0.5 < card.numbers["own"].low < card.numbers["own"].high < 0.9
    assert (card.verdict, card.correction) == ("corrected", "Mostly.")


def test_a_share_that_lies_on_the_bar_cannot_be_told(monkeypatch, mixed):
    found = write_summary(mixed)
    monkeypatch.setattr(slice_after_output, "HALF", float(((found.own / found.removed).mean((1, 2)) * found.tokens).sum() / found.tokens.sum()) + 1e-4)
    card = ENTRY.run(mixed)
    assert card.verdict == "inconclusive"
    assert "Too few texts: about " in card.summary


def test_shares_by_hand(mixed):
    model, found = opened(llama()), write_summary(mixed)
    ids = torch.tensor([model.tokenizer(TEXTS[2])["input_ids"]])
    heard = []
    projection = model.hf.model.layers[1].self_attn.o_proj
    projection.register_forward_hook(lambda module, args, result: heard.append((args[0][0].detach().double(), result[0].detach().double())))
    with torch.no_grad():
        model.hf(input_ids=ids)
    words, out = heard[0]
    for head in range(6):
        write = words[:, 4 * head : 4 * head + 4] @ projection.weight.detach().double()[:, 4 * head : 4 * head + 4].t()
        part, mine = out[:, 4 * head : 4 * head + 4], write[:, 4 * head : 4 * head + 4]
        assert float(found.removed[2, 1, head]) == pytest.approx(float(part.square().sum()), rel=1e-4)
        assert float(found.own[2, 1, head]) == pytest.approx(float((part * mine).sum()), rel=1e-3, abs=1e-4)
        cosine = (part * mine).sum(1) / part.norm(dim=1) / write.norm(dim=1)
        assert float(found.alike[2, 1, head]) == pytest.approx(float(cosine.sum()), rel=1e-3, abs=1e-4)


def test_losses_with_slices_cut_are_those_of_a_hook():
    hf = llama()
    ids = torch.tensor([opened(hf).tokenizer(TEXTS[0])["input_ids"]])
    passage = Evaluator(opened(hf), "next").open(ids)
    for layer in range(3):
        found = losses_sliced(passage, passage.places[layer], [0, 3, 5])
        known = [sliced_behind(hf, "llama", layer, head, {"input_ids": ids}) for head in (0, 3, 5)]
        assert found.tolist() == pytest.approx(known, abs=1e-4)
    assert float(passage.loss(passage.forward.outputs([passage.places[0].index], lambda call, read: read, 1), 1)) == pytest.approx(
        passage.base
    )  # no hook is left


def test_a_map_that_serves_several_layers_is_refused():
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "embedding_size": 8, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 20, "vocab_size": 50}
    passage = Evaluator(hw.open_model(drawn(AlbertModel(AlbertConfig(**sizes)))), "cosine").open(torch.arange(3, 12))
    with pytest.raises(WritesRefused, match=r"W_O must serve one layer for its output to be sliced, got .*dense, which serves several"):
        losses_sliced(passage, passage.places[1], [0])


def wide() -> "hw.Model":
    """Five heads of 4 numbers in a model of 24."""
    sizes = {"hidden_size": 24, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 4, "intermediate_size": 20, "num_hidden_layers": 2}
    torch.manual_seed(0)
    return hw.open_model(drawn(Qwen3ForCausalLM(Qwen3Config(vocab_size=len(vocabulary()), **sizes))), tokenizer(False))


def test_where_no_slice_looks_like_a_head():
    card = ENTRY.run(Study(wide(), TEXTS))
    assert card.verdict == "inconclusive"
    assert card.summary == "The output of W_O has a different width from the concatenated heads, so it has no slice for each head."
    passage = Evaluator(wide(), "next").open(torch.arange(3, 12))
    with pytest.raises(WritesRefused, match=r"output of W_O must have a multiple of 5 numbers to be sliced by head, got 24"):
        losses_sliced(passage, passage.places[0], [0])


def test_one_head_is_the_whole_output():
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 20, "num_hidden_layers": 2}
    torch.manual_seed(0)
    model = hw.open_model(drawn(LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary()), **sizes))), tokenizer(False))
    card = ENTRY.run(Study(model, TEXTS))
    assert card.summary == "Every layer has a single head, so the slice is the whole output."


def test_too_few_texts():
    card = ENTRY.run(Study(opened(llama()), TEXTS[:2]))
    assert card.summary == "The content of a slice of the output needs at least 4 texts to be measured; got 2. Give more texts."


def test_an_independent_script_finds_the_same(mixed, card, plain):
    model = mixed.model
    texts = [torch.tensor([model.tokenizer(text)["input_ids"]]) for text in mixed.texts]
    found = independent.found(model.hf, texts, slice_after_output._drawn(mixed))
    for name in ("own", "cosine", "factor", "factor, most", "order"):
        assert found[name] == pytest.approx(card.numbers[name].value, rel=2e-2, abs=1e-3), name
