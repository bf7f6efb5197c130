"""Other weights for a head: what they do is what the model does with them, and what is found is as far as planted values allow."""

import pytest
import torch
from transformers import LlamaForCausalLM

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.errors import WritesRefused
from headwise.experiments.measurements import perturbed_weights as m
from tests.analysis.toys import decoder
from tests.models.tiny import build, ids

LENGTH = 11
TEXT = ids(batch=1, length=LENGTH)
HEADS = [1, 2, 5]  # of 6, two key heads


@pytest.fixture(scope="module")
def model():
    return decoder()


@pytest.fixture(scope="module")
def passage(model):
    return Evaluator(model, "kl").open(TEXT)


@pytest.fixture(scope="module")
def found(passage):
    return m.attention_of(passage, passage.places[1], HEADS)


def divergence(own: torch.Tensor, other: torch.Tensor) -> float:
    one, two = own.double().log_softmax(-1), other.double().log_softmax(-1)
    return float((one.exp() * (one - two)).sum(-1).mean())


def test_own_weights_give_the_own_output(passage, found):
    assert m.effects(passage, passage.places[1], HEADS, found.weights @ found.values).abs().max() < 1e-5


def test_silence_does_what_the_edit_does(model, passage, found):
    does = m.effects(passage, passage.places[1], HEADS, torch.zeros(3, LENGTH, 4))
    with torch.no_grad():
        own = model.hf(TEXT).logits
        for head, value in zip(HEADS, does.tolist(), strict=True):
            assert divergence(own, model.edit(hw.Ablate(1, head)).hf(TEXT).logits) == pytest.approx(value, rel=1e-3, abs=1e-6)


def logits_with(hf: LlamaForCausalLM, head: int, other: torch.Tensor) -> torch.Tensor:
    """The model run with what this head of layer 1 says made anew from its values, by hooks on its own modules."""
    block, values = hf.model.layers[1].self_attn, []

    def replaced(module, args):
        read = args[0].clone()
        read[0, :, 4 * head : 4 * head + 4] = other @ values[0][0].unflatten(-1, (2, 4))[:, head // 3]
        return (read,)

    handles = [block.v_proj.register_forward_hook(lambda module, args, result: values.append(result)), block.o_proj.register_forward_pre_hook(replaced)]
    try:
        with torch.no_grad():
            return hf(TEXT).logits
    finally:
        for handle in handles:
            handle.remove()


def test_other_weights_do_what_they_do_in_the_model(passage, found):
    other = m.permuted(found, seed=3)
    does = m.effects(passage, passage.places[1], HEADS, other @ found.values)
    hf: LlamaForCausalLM = decoder().hf
    own = hf(TEXT).logits.detach()
    for number, head in enumerate(HEADS):
        assert divergence(own, logits_with(hf, head, other[number])) == pytest.approx(float(does[number]), rel=1e-3, abs=1e-6)


def test_permuted_weights_are_the_same_weights_elsewhere(found):
    other = m.permuted(found, seed=0)
    assert torch.equal(other.sort(-1).values, found.weights.sort(-1).values)
    assert (other[~found.visible] == 0).all()
    assert (other - found.weights).abs().max() > 0.05


def test_uniform_weights_are_alike(found):
    other = m.uniform(found)
    assert torch.allclose(other[:, 4, :5], torch.full((3, 5), 0.2), atol=1e-5)
    assert (other[~found.visible] == 0).all()


def test_distances():
    visible = torch.ones(1, 2, 2, dtype=torch.bool)
    one = m.HeadAttention(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]), visible, torch.ones(1, 2, 3), torch.eye(3)[None])
    other = torch.tensor([[[0.0, 1.0], [0.5, 0.5]]])
    assert float(m.divergence(one, other)) == pytest.approx(0.5, abs=1e-6)  # entirely different in one row of two
    assert float(m.variation(one, other)) == pytest.approx(0.5)
    alone = m.HeadAttention(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[True, False]]]), torch.ones(1, 2, 3), torch.eye(3)[None])
    assert float(m.divergence(alone, torch.tensor([[[1.0, 0.0]]]))) == 0.0  # no row sees several keys


def test_the_root_measures_what_is_written(model, found):
    blocks = model.hf.model.layers[1].self_attn.o_proj.weight.detach().t().unflatten(0, (6, 4))[HEADS]
    z = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose((z @ found.root).norm(dim=-1), (z @ blocks).norm(dim=-1), rtol=1e-4)


def planted(same: bool) -> "hw.Model":
    """A model of one layer, whose head 0 has the same value for all keys; or values that differ in as many directions as there are keys."""
    hf = build("gpt2", n_layer=1, n_embd=48, n_head=2)
    with torch.no_grad():
        weight, bias = hf.transformer.h[0].attn.c_attn.weight, hf.transformer.h[0].attn.c_attn.bias
        if same:
            weight[:, 96:120] = 0
            bias[96:120] = torch.linspace(0.5, 1, 24)
    return hw.open_model(hf)


def test_where_all_values_are_the_same_weights_may_be_any():
    passage = Evaluator(planted(same=True), "kl").open(TEXT)
    other = m.perturb_weights(passage, passage.places[0], [0], within=0.01, part_of=0.1)
    assert float(other.far[0]) > 0.5
    assert float(other.uniform[0]) < 1e-6 < float(other.silenced[0])
    assert float(other.permuted[0]) < 1e-6


def test_where_values_differ_in_every_direction_weights_must_stay():
    passage = Evaluator(planted(same=False), "kl").open(TEXT)
    other = m.perturb_weights(passage, passage.places[0], [0, 1], within=1e-5, part_of=1e-5)
    assert (other.far < 0.1).all()
    assert (other.uniform > 1e-4).all()
    assert (other.silenced > 1e-3).all()


def test_what_is_found_keeps_the_output(passage, found):
    place = passage.places[1]
    result = m.perturb_weights(passage, place, HEADS, within=0.01, part_of=0.1)
    tried = [m.uniform(found), m.permuted(found, 0), *m.searched(found, m.PRICES)]
    bar = (0.1 * result.silenced).clamp(max=0.01)
    for number in range(3):
        kept = [m.divergence(found, one)[number] for one in tried if m.effects(passage, place, HEADS, one @ found.values)[number] <= bar[number]]
        assert float(result.far[number]) == pytest.approx(float(max(kept, default=torch.zeros(()))), abs=1e-3)
    assert (result.varied > 0).any()


def test_a_higher_price_moves_less(found):
    low, high = m.searched(found, (1.0, 1e5))
    assert (m.divergence(found, high) < m.divergence(found, low)).all()
    assert torch.allclose(low.sum(-1), torch.ones(3, LENGTH), atol=1e-4)
    assert (low[~found.visible] == 0).all()


@pytest.mark.usefixtures("plain")
def test_a_gate_is_refused():
    from benchmarks.tiny import build as of_type

    hf, given = of_type("qwen3_next")
    passage = Evaluator(hw.open_model(hf), "cosine").open(given)
    with pytest.raises(WritesRefused, match=r"what heads of .* say must reach W_O as it is, got something in between"):
        m.attention_of(passage, passage.places[0], [0])
