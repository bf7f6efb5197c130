"""Which tokens an output rests on: against masks and gradients by hand, with plain transformers."""

from itertools import combinations

import pytest
import torch
from transformers import LlamaForCausalLM

import headwise as hw
from headwise.claims import used
from headwise.errors import ModelError
from headwise.heads.passages import Opener
from tests.heads.toys import decoder, encoder
from tests.models.tiny import build, ids

LENGTH = 13


@pytest.fixture(scope="module")
def passage():
    return Opener(decoder(), "kl").open(ids(batch=1, length=LENGTH)[0])


@pytest.fixture(scope="module")
def both_ways():
    return Opener(encoder(), "kl").open(ids(batch=1, length=LENGTH)[0])


def by_hand(hf: LlamaForCausalLM, text: torch.Tensor, ahead: bool) -> torch.Tensor:
    """The divergence at each token when one token is hidden from all, by an additive mask of eager attention."""
    hf.set_attn_implementation("eager")
    lowest = torch.finfo(torch.float32).min
    seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool) if ahead else torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~seen, lowest)

    def logits(hidden: int | None) -> torch.Tensor:
        plane = mask.clone()
        if hidden is not None:
            plane[:, hidden] = lowest
        with torch.no_grad():
            return hf(input_ids=text, attention_mask=plane[None, None]).logits[0].double().log_softmax(-1)

    own = logits(None)
    return torch.stack([(own.exp() * (own - logits(key))).sum(-1) for key in range(LENGTH)], 1)


def test_hiding_a_token_is_what_a_mask_does(passage):
    model = decoder()
    found, known = used.hiding(passage), by_hand(model.hf, ids(batch=1, length=LENGTH), ahead=False)
    rows = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(-1)
    assert torch.allclose(found.double()[rows], known[rows], atol=2e-4, rtol=1e-3)
    assert (found.triu(1) < 1e-9).all()  # what comes after does not matter
    assert float(found[rows].mean()) > 0.01


def test_hiding_a_token_from_an_encoder(both_ways):
    found, known = used.hiding(both_ways), by_hand(encoder().hf, ids(batch=1, length=LENGTH), ahead=True)
    assert torch.allclose(found.double(), known, atol=2e-4, rtol=1e-3)
    assert float(found.mean()) > 0.001


def test_slopes_are_gradients_of_the_embeddings(passage):
    hf, rows = decoder().hf, torch.tensor([5, 12])
    embedded = hf.get_input_embeddings()(ids(batch=1, length=LENGTH)).detach().requires_grad_()
    scores = hf(inputs_embeds=embedded).logits[0].log_softmax(-1).amax(-1)
    known = torch.stack([torch.autograd.grad(scores[row], embedded, retain_graph=True)[0][0].norm(dim=-1) for row in rows])
    assert torch.allclose(used.slopes(passage, rows), known, rtol=1e-3, atol=1e-5)


def test_slopes_of_hidden_states_are_along_themselves():
    hf = build("bert")
    text = ids(batch=1, length=9)
    embedded = hf.get_input_embeddings()(text).detach().requires_grad_()
    state = hf(inputs_embeds=embedded).last_hidden_state[0, 4]
    known = torch.autograd.grad((state * (state / state.norm()).detach()).sum(), embedded)[0][0].norm(dim=-1)
    found = used.slopes(Opener(hw.open_model(hf), "cosine").open(text), torch.tensor([4, 4]))
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
    hidden = used.hiding(passage)
    maps = torch.stack([hidden, 0 * hidden, hidden.max() - hidden])[None].tril()
    monkeypatch.setattr(used, "_maps", lambda passage: (maps, None, 0.0))
    found = used.agreement(passage)
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
    found = used.agreement(both_ways)
    assert found.hidden.shape == found.slope.shape == (2, 6)
    assert ((found.hidden >= -1) & (found.hidden <= 1)).all()
    assert -1 <= found.mean_hidden <= 1


@pytest.mark.usefixtures("plain")
def test_texts_must_be_long_enough():
    passage = Opener(decoder(), "kl").open(ids(batch=1, length=8)[0])
    with pytest.raises(ModelError, match="texts must have over 8 tokens for their ranks to be compared, got 8"):
        used.agreement(passage)


@pytest.mark.usefixtures("plain")
def test_outputs_must_be_of_the_tokens_that_heads_look_from():
    given = {"input_ids": ids(batch=1, length=11), "decoder_input_ids": ids(batch=1, length=9)}
    passage = Opener(hw.open_model(build("t5")), "kl", "encoder.self").open(given)
    with pytest.raises(ModelError, match=r"output must have a vector for each of the 11 tokens that heads look from, got \[1, 9, 97\]"):
        used.hiding(passage)
    with pytest.raises(ModelError, match="output must have a vector for each of the 11 tokens that heads look from, got none"):
        used._output({}, 11)
