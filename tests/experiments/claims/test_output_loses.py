"""What W_O loses, against numpy; nothing by a square matrix of full rank, and what it throws away where it does."""

import numpy as np
import pytest
import torch

from headwise.experiments.claims.output_loses import ENTRY
from headwise.experiments.measurements.write_summary import matrix, write_summary
from headwise.experiments.study import Study
from tests.experiments.claims.planted_models import llama, mute, opened
from tests.experiments.sample_stories import stories

TEXTS = stories(6, 2)


def said(hf, text_ids: torch.Tensor, layer: int) -> np.ndarray:
    """What W_O reads, [T, H·E]."""
    heard = []
    handle = hf.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(lambda module, args: heard.append(args[0][0].detach().double().numpy()))
    with torch.no_grad():
        hf(input_ids=text_ids)
    handle.remove()
    return heard[0]


def test_a_square_matrix_of_full_rank_loses_nothing():
    card = ENTRY.run(Study(opened(llama()), TEXTS))
    assert card.verdict == "cut"
    assert card.numbers["rank"].value == card.numbers["directions"].value == 24
    assert card.numbers["lost, worst layer"].high < 1e-6
    assert 1 < card.numbers["effective rank"].value < 24
    assert "over 99.99 % of the energy of its heads' z can be reconstructed" in card.summary
    assert (card.texts, card.measure) == (6, "")


def test_what_is_thrown_away_is_lost_and_nothing_else(plain):
    model = mute([(0, 2), (1, 2), (2, 2)])
    study = Study(model, TEXTS)
    card, found = ENTRY.run(study), write_summary(study)
    assert card.verdict == "kept"
    assert card.numbers["rank"].value == 20
    share = found.lost.sum(0) / found.z.sum(0)
    assert torch.allclose(share[:, 2], torch.ones(3, dtype=torch.float64), atol=1e-6)
    assert float(share[:, [0, 1, 3, 4, 5]].max()) < 1e-6
    assert card.numbers["lost, worst head"].value == pytest.approx(1, abs=1e-6)


def test_a_layer_that_loses_is_named(plain):
    card = ENTRY.run(Study(mute([(1, 0)]), TEXTS))
    assert (card.verdict, card.correction) == ("corrected", "It does in 1 of 3 layers.")


def test_a_loss_that_lies_on_the_bar_cannot_be_told(monkeypatch, plain):
    study = Study(mute([(1, 0)]), TEXTS)
    found = write_summary(study)
    lost = (found.lost.nansum(2) / found.z.nansum(2))[:, 1]
    monkeypatch.setattr("headwise.experiments.claims.output_loses.BAR", float((lost * found.tokens).sum() / found.tokens.sum()))
    card = ENTRY.run(study)
    assert card.verdict == "inconclusive"


def test_the_numbers_are_those_of_numpy():
    model = mute([(1, 3)])
    hf, study = model.hf, Study(model, TEXTS)
    found = write_summary(study)
    for number in (0, 5):
        ids = torch.tensor([model.tokenizer(TEXTS[number])["input_ids"]])
        for layer in range(3):
            read = said(hf, ids, layer)
            weight = hf.model.layers[layer].self_attn.o_proj.weight.detach().double().numpy()
            back = read @ weight.T @ np.linalg.pinv(weight.T, rcond=24 * np.finfo(np.float32).eps)
            heads = (len(read), 6, 4)
            lost, energy = (((read - back) ** 2).reshape(heads).sum((0, 2)), (read**2).reshape(heads).sum((0, 2)))
            assert found.lost[number, layer].numpy() / energy == pytest.approx(lost / energy, abs=1e-6)
            assert found.z[number, layer].numpy() == pytest.approx(energy, rel=1e-5)
            writes = np.einsum("the,mhe->thm", read.reshape(heads), weight.reshape(24, 6, 4))
            length = np.linalg.norm(writes, axis=-1)
            assert found.share[number, layer].numpy() == pytest.approx((length / length.sum(1, keepdims=True)).sum(0), rel=1e-4)
            assert float(found.added[number, layer]) == pytest.approx((writes.sum(1) ** 2).sum(), rel=1e-4)
            assert found.write[number, layer].numpy() == pytest.approx((length**2).sum(0), rel=1e-4)


def test_rank_and_effective_rank_of_a_matrix():
    known = torch.diag(torch.tensor([3.0, 3.0, 3.0, 0.0])).reshape(2, 2, 4)
    found = matrix(known)
    assert found.rank == 3
    assert found.effective_rank == pytest.approx(3)
    assert torch.allclose(known.reshape(4, 4).double() @ found.inverse, torch.diag(torch.tensor([1.0, 1.0, 1.0, 0.0])).double())


def test_what_is_rounded_away_is_lost(plain):
    """In bfloat16 a layer adds numbers of 8 bits: from these less can be computed back."""
    card = ENTRY.run(Study(opened(llama().bfloat16()), TEXTS))
    assert card.numbers["lost"].value > 1e-5


def test_too_few_texts():
    card = ENTRY.run(Study(opened(llama()), TEXTS[:3]))
    assert (card.verdict, card.texts) == ("inconclusive", 3)
    assert card.summary == "The information lost in W_O needs at least 4 texts to be measured; got 3. Give more texts."
