"""What a model writes, greedily and with its cache, and a run over all of it."""

import pytest
import torch
from transformers import DynamicCache

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError
from headwise.models.generate import disagreement
from tests.models.tiny import build

IDS = torch.tensor([[5, 17, 31, 8, 44, 9, 61], [0, 0, 23, 4, 77, 12, 50]])
MASK = (IDS != 0).long()
LEFT = {"input_ids": IDS, "attention_mask": MASK, "position_ids": (MASK.cumsum(-1) - 1).clamp(min=0)}


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])  # mistral's window of 4 is shorter than the prompt, and its cache drops keys
def test_the_new_tokens_are_those_of_transformers_and_the_run_is_over_all(name):
    hf = build(name)
    run = hw.open_model(hf).generate(LEFT, 6)
    right = hf.generate(input_ids=IDS, attention_mask=MASK, max_new_tokens=6, do_sample=False, pad_token_id=0)
    length = right.shape[1]
    for row in range(2):
        ended = (right[row, 7:] == 2).nonzero().flatten().tolist()
        stop = 7 + ended[0] + 1 if ended else length
        assert run.tokens[row][7:stop] == [str(x) for x in right[row, 7:stop].tolist()]
    assert run.statistics.sizes["query"] == length
    assert run.proof.passed, str(run.proof)
    assert not any("without the cache" in note for note in run.notes)


def test_each_new_row_is_what_its_step_saw():
    hf = build("llama")
    run = hw.open_model(hf).generate({"input_ids": IDS[:1]}, 4)
    ids = torch.tensor([[int(x) for x in run.tokens[0]]])
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        cache, rows = DynamicCache(config=hf.config), []
        for step in range(6, ids.shape[1]):
            given = ids[:, : step + 1] if step == 6 else ids[:, step : step + 1]
            out = hf(input_ids=given, cache=cache, use_cache=True, output_attentions=True)
            rows.append(out.attentions[1][0, 2, -1])
    for step, row in enumerate(rows, 6):
        torch.testing.assert_close(run.weights(1, 2)[step, : step + 1], row, atol=1e-5, rtol=1e-4)


def test_a_decoder_with_an_encoder():
    hf = build("bart")
    run = hw.open_model(hf).generate(IDS[:1], 5)
    assert run.parts["decoder.self"].sizes["query"] <= 6
    assert run.parts["encoder.self"].sizes["query"] == 7


def test_a_step_that_would_choose_otherwise_is_noted():
    given = {"input_ids": torch.tensor([[1, 2, 3]])}
    logits = torch.zeros(1, 3, 5)
    logits[0, 0, 2] = logits[0, 1, 4] = 1
    assert "new token 1 of batch row 0 would be another" in disagreement(given, logits, 1)
    logits[0, 1, 3] = 2
    assert disagreement(given, logits, 1) is None


@pytest.mark.parametrize(
    ("name", "count", "kind", "message"),
    [
        ("llama", 0, ArgumentError, "max_new_tokens must be at least 1, got 0"),
        ("llama", 1.5, ArgumentTypeError, "max_new_tokens must be an int, got float"),
        ("gpt2", 5000, ArgumentError, r"text and new tokens must fit the model's 1024 positions, got 7 \+ 5000"),
        ("bert", 3, ModelError, "a model must have a language head to generate, got BertModel"),
    ],
)
def test_bad_input(plain, name, count, kind, message):
    with pytest.raises(kind, match=message):
        hw.open_model(build(name)).generate(IDS[:1], count)
