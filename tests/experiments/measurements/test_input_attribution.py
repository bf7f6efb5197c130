"""Which tokens an output rests on: against masks and gradients by hand, with plain transformers."""

from collections.abc import Callable
from itertools import combinations

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import ModelError
from headwise.experiments.measurements import input_attribution as used
from tests.analysis.toys import decoder, encoder
from tests.models.tiny import build, ids

LENGTH = 13
TEXT = ids(batch=1, length=LENGTH)
LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(scope="module")
def passage():
    return Evaluator(decoder(), "kl").open(ids(batch=1, length=LENGTH)[0])


@pytest.fixture(scope="module")
def both_ways():
    return Evaluator(encoder(), "kl").open(ids(batch=1, length=LENGTH)[0])


def by_hand(run: Callable[[torch.Tensor], torch.Tensor], seen: torch.Tensor) -> list[torch.Tensor]:
    """What the model gives for each token with no token hidden, and with each one hidden from all by an additive mask of eager attention."""
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~seen, LOWEST)
    planes = [mask, *(mask.index_fill(1, torch.tensor([key]), LOWEST) for key in range(LENGTH))]
    with torch.no_grad():
        return [run(plane[None, None])[0].double() for plane in planes]


def test_hiding_a_token_is_what_a_mask_does(passage):
    hf = decoder().hf
    hf.set_attn_implementation("eager")
    before = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    own, *others = by_hand(lambda mask: hf(input_ids=TEXT, attention_mask=mask).logits.log_softmax(-1), before)
    known = torch.stack([(own.exp() * (own - other)).sum(-1) for other in others], 1)
    found = used.masking_effects(passage)
    rows = before.tril(-1)
    assert torch.allclose(found.double()[rows], known[rows], atol=2e-4, rtol=1e-3)
    assert (found.triu(1) < 1e-9).all()  # what comes after does not matter
    assert float(found[rows].mean()) > 0.01


def test_hiding_a_token_from_an_encoder():
    hf = build("bert").double()
    found = used.masking_effects(Evaluator(hw.open_model(hf), "cosine").open(TEXT))
    hf.set_attn_implementation("eager")
    own, *others = by_hand(lambda mask: hf(input_ids=TEXT, attention_mask=mask).last_hidden_state, torch.ones(LENGTH, LENGTH, dtype=torch.bool))
    known = torch.stack([1 - torch.cosine_similarity(own, other, dim=-1) for other in others], 1)
    assert torch.allclose(found.double(), known, atol=1e-12, rtol=1e-3)
    assert float(found.mean()) > 1e-6


def test_slopes_are_gradients_of_the_embeddings(passage):
    hf, rows = decoder().hf, torch.tensor([5, 12])
    embedded = hf.get_input_embeddings()(ids(batch=1, length=LENGTH)).detach().requires_grad_()
    scores = hf(inputs_embeds=embedded).logits[0].log_softmax(-1).amax(-1)
    known = torch.stack([torch.autograd.grad(scores[row], embedded, retain_graph=True)[0][0].norm(dim=-1) for row in rows])
    assert torch.allclose(used.gradient_norms(passage, rows), known, rtol=1e-3, atol=1e-5)


def test_slopes_of_hidden_states_are_along_themselves():
    hf = build("bert")
    text = ids(batch=1, length=9)
    embedded = hf.get_input_embeddings()(text).detach().requires_grad_()
    state = hf(inputs_embeds=embedded).last_hidden_state[0, 4]
    known = torch.autograd.grad((state * (state / state.norm()).detach()).sum(), embedded)[0][0].norm(dim=-1)
    found = used.gradient_norms(Evaluator(hw.open_model(hf), "cosine").open(text), torch.tensor([4, 4]))
    assert torch.allclose(found, known.expand(2, -1), rtol=1e-3, atol=1e-5)


def test_kendall_counts_pairs():
    generator = torch.Generator().manual_seed(1)
    one, other = torch.rand(9, generator=generator), (torch.rand(9, generator=generator) * 5).round()
    concordant = sum(float(torch.sign((one[i] - one[j]) * (other[i] - other[j]))) for i, j in combinations(range(9), 2))
    ties = sum(int(other[i] == other[j]) for i, j in combinations(range(9), 2))
    assert ties > 0
    assert float(used.kendall(one, other)) == pytest.approx(concordant / (36 * (36 - ties)) ** 0.5)


@pytest.mark.usefixtures("plain")
def test_weights_that_are_what_is_used_agree_entirely(passage, monkeypatch):
    hidden = used.masking_effects(passage)
    maps = torch.stack([hidden, 0 * hidden, hidden.max() - hidden])[None].tril()
    monkeypatch.setattr(used, "_maps", lambda passage: (maps, None, 0.0))
    found = used.rank_agreement(passage)
    assert found.hidden.tolist() == [[1.0, 0.0, -1.0]]
    assert found.by_length is None


def test_maps_are_the_models_own(passage):
    hf = decoder().hf
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        known = torch.stack(hf(input_ids=ids(batch=1, length=LENGTH), output_attentions=True).attentions)[:, 0]
    maps, carried, off = used._maps(passage)
    assert torch.allclose(maps, known, atol=1e-5)
    assert off < 1e-5
    assert carried is not None
    lengths = carried / maps  # the length of what a key carries is the same for all who look at it
    rows = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril() & (maps[0, 0] > 1e-6)
    assert torch.allclose(lengths[0, 0][rows], lengths[0, 0, -1].expand(LENGTH, -1)[rows], rtol=1e-2)


def test_a_model_gives_agreements_for_each_head(both_ways):
    found = used.rank_agreement(both_ways)
    assert found.hidden.shape == found.slope.shape == (2, 6)
    assert ((found.hidden >= -1) & (found.hidden <= 1)).all()
    assert -1 <= found.mean_hidden <= 1


@pytest.mark.usefixtures("plain")
def test_texts_must_be_long_enough():
    passage = Evaluator(decoder(), "kl").open(ids(batch=1, length=8)[0])
    with pytest.raises(ModelError, match="texts must have over 8 tokens for their ranks to be compared, got 8"):
        used.rank_agreement(passage)


@pytest.mark.usefixtures("plain")
def test_outputs_must_be_of_the_tokens_that_heads_look_from():
    given = {"input_ids": ids(batch=1, length=11), "decoder_input_ids": ids(batch=1, length=9)}
    passage = Evaluator(hw.open_model(build("t5")), "kl", "encoder.self").open(given)
    with pytest.raises(ModelError, match=r"output must have a vector for each of the 11 tokens that heads look from, got \[1, 9, 97\]"):
        used.masking_effects(passage)
    with pytest.raises(ModelError, match="output must have a vector for each of the 11 tokens that heads look from, got none"):
        used._output({}, 11)
