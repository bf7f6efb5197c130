"""Padding counts nowhere: a padded text gives what the text alone gives, on either side, by every method."""

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from tests.models.tiny import build, ids

SHORT, LONG = ids(batch=1, length=7, seed=3)[0], ids(batch=1, length=11, seed=4)[0]
CASES = [("ablation", "zero"), ("ablation", "mean"), ("ablation", "resample"), ("gradient", "zero"), ("write", "zero")]
SIDES = ("left", "right")


def padded(text, side, length=13):
    """The text with tokens before or behind it that the attention mask leaves out."""
    gap, pads = length - len(text), torch.full((length - len(text),), 5)
    real = torch.ones(len(text), dtype=torch.int64)
    parts = ((pads, text), (0 * real.new_ones(gap), real)) if side == "left" else ((text, pads), (real, 0 * real.new_ones(gap)))
    return {"input_ids": torch.cat(parts[0])[None], "attention_mask": torch.cat(parts[1])[None]}


def batch(side):
    rows = [padded(text, side) for text in (SHORT, LONG)]
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def model():
    return hw.open_model(build("llama"))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("method", "ablation"), CASES, ids=lambda x: x)
def test_rank_of_padded_texts_is_that_of_the_texts(model, method, ablation, side):
    alone = hw.rank(model, [SHORT, LONG], method, ablation=ablation)
    found = hw.rank(model, [padded(SHORT, side), padded(LONG, side, 12)], method, ablation=ablation)
    assert found.attrs["tokens"] == alone.attrs["tokens"]
    torch.testing.assert_close(torch.tensor(found.effect.values), torch.tensor(alone.effect.values), rtol=1e-3, atol=1e-5)
    if "base" in alone.attrs:
        assert found.attrs["base"] == pytest.approx(alone.attrs["base"], rel=1e-5)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("method", "ablation"), [case for case in CASES if case[1] != "resample"], ids=lambda x: x)
def test_rank_of_a_batch_is_that_of_its_texts(model, method, ablation, side):
    alone, found = hw.rank(model, [SHORT, LONG], method, ablation=ablation), hw.rank(model, [batch(side)], method, ablation=ablation)
    if method == "gradient":
        assert found.attrs["tokens"] == alone.attrs["tokens"]
    torch.testing.assert_close(torch.tensor(found.effect.values), torch.tensor(alone.effect.values), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("side", SIDES)
def test_the_loss_is_transformers_own_on_the_text_alone(model, side):
    passage = Evaluator(model, "next").open(padded(SHORT, side))
    with torch.no_grad():
        logits = model.hf(SHORT[None]).logits[0]
    assert passage.loss.tokens == len(SHORT) - 1
    assert passage.base == pytest.approx(float(torch.nn.functional.cross_entropy(logits[:-1], SHORT[1:])), rel=1e-4)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("criterion", ["pattern", "write"])
def test_similarity_of_a_padded_text_is_that_of_the_text(model, criterion, side):
    alone, found = hw.similar(model, SHORT, criterion), hw.similar(model, padded(SHORT, side), criterion)
    torch.testing.assert_close(torch.tensor(found.similarity.values), torch.tensor(alone.similarity.values), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("side", SIDES)
def test_resilience_of_a_padded_text_is_that_of_the_text(model, side):
    alone, found = hw.resilience(model, SHORT, by="write"), hw.resilience(model, padded(SHORT, side), by="write")
    for name in ("loss", "direct", "total"):
        torch.testing.assert_close(torch.tensor(found[name].values), torch.tensor(alone[name].values), rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("side", SIDES)
def test_patching_measures_the_last_token_of_the_text(model, side):
    clean, corrupt = SHORT, torch.cat([SHORT[:2], ids(batch=1, length=5, seed=9)[0]])
    alone = hw.rank(model, [(clean, corrupt)], "patch").effect.values
    found = hw.rank(model, [(padded(clean, side), padded(corrupt, side))], "patch").effect.values
    torch.testing.assert_close(torch.tensor(found), torch.tensor(alone), rtol=1e-3, atol=1e-4)
