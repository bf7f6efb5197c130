"""Ablation is what it is by hand: the head's words zeroed before W_O, and nothing else."""

import copy
import random

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.eval_text import Evaluator
from headwise.analysis.ablation.rank import rank
from headwise.errors import ArgumentError
from tests.analysis.plain import loss, sliced_behind, without
from tests.models.tiny import FAMILIES, build, given, ids

LAYERS = {
    "gpt2": {"n_layer": 4},
    "llama": {"num_hidden_layers": 4},
    "opt": {"num_hidden_layers": 4},
    "gemma2": {"num_hidden_layers": 4},
    "t5": {"num_decoder_layers": 4},
}


def heads(seed: int) -> list[tuple[int, int]]:
    return random.Random(seed).sample([(layer, head) for layer in range(4) for head in range(6)], 20)


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "gemma2"])
def test_twenty_heads_are_as_by_hand(name):
    hf = build(name, **LAYERS[name])
    text = {"input_ids": ids(batch=1, length=13)}
    found = rank(hw.open_model(hf), text)
    base = loss(hf, text)
    assert found.attrs["base"] == pytest.approx(base, abs=1e-5)
    for layer, head in heads(0):
        by_hand = loss(without(hf, name, [(layer, head)]), text) - base
        assert float(found.effect[layer, head]) == pytest.approx(by_hand, abs=1e-5), (layer, head)


def test_cross_attention_is_as_by_hand():
    hf = build("t5", **LAYERS["t5"])
    text = {"input_ids": ids(batch=1, length=13), "decoder_input_ids": ids(batch=1, length=7, seed=3)}
    found, base = rank(hw.open_model(hf), text, part="decoder.cross"), loss(hf, text)
    for layer, head in heads(1):
        assert float(found.effect[layer, head]) == pytest.approx(loss(without(hf, "t5", [(layer, head)]), text) - base, abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_slicing_what_comes_out_of_the_projection_is_another_thing(name):
    hf = build(name, **LAYERS[name])
    text = {"input_ids": ids(batch=1, length=13)}
    base = loss(hf, text)
    right = torch.tensor([loss(without(hf, name, [place]), text) - base for place in heads(2)])
    wrong = torch.tensor([sliced_behind(hf, name, *place, text) - base for place in heads(2)])
    apart = (right - wrong).abs() / right.abs().clamp(min=1e-4)
    assert float(apart.median()) > 0.5
    found = rank(hw.open_model(hf), text)
    assert all(abs(float(found.effect[place]) - float(x)) < 1e-5 for place, x in zip(heads(2), right, strict=True))


# Left padding with position_ids of one's own: the partial forward's effect is off by 0.01 from the model's. A known fault, not yet mended.
@pytest.mark.parametrize(
    "padding", [pytest.param("left", marks=pytest.mark.xfail(strict=False, reason="rank with explicit position_ids is off by 0.01")), "right"]
)
def test_padding_counts_nowhere(padding):
    hf = build("llama")
    batch = given(FAMILIES["llama"], padding=padding)
    if padding == "left":
        batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    found, base = rank(hw.open_model(hf), batch), loss(hf, batch)
    for place in ((0, 1), (2, 5)):
        assert float(found.effect[place]) == pytest.approx(loss(without(hf, "llama", [place]), batch) - base, abs=1e-5)


def test_only_what_follows_is_run_again():
    hf = build("llama", num_hidden_layers=4)
    passage = Evaluator(hw.open_model(hf), "next").open(ids(batch=1))
    assert passage.forward.reuses and passage.forward.copies and passage.forward.is_chunked
    ran: list[int] = []
    for layer, block in enumerate(passage.forward.twin.model.layers):
        block.mlp.register_forward_hook(lambda *_, layer=layer: ran.append(layer))
    passage.forward.outputs([2], lambda call, read: read * 0, 1)
    assert ran == [2, 3]


def test_a_shared_layer_is_ablated_in_one_of_its_uses():
    from transformers import AlbertConfig, AlbertForMaskedLM

    from tests.models.tiny import drawn

    sizes = {"hidden_size": 24, "embedding_size": 8, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 20, "vocab_size": 97}
    hf = drawn(AlbertForMaskedLM(AlbertConfig(**sizes)))
    text = ids(batch=1)
    found = rank(hw.open_model(hf), text, loss="kl")
    turns = []

    def cut(module, args, result):
        turns.append(None)
        words = args[0].clone()
        if len(turns) == 2:
            words.unflatten(-1, (6, -1))[..., 4, :] = 0
        return (words,)

    with torch.no_grad():
        own = hf(text).logits.double().log_softmax(-1)
        dense = next(module for name, module in hf.named_modules() if name.endswith("attention.dense"))
        handle = dense.register_forward_pre_hook(lambda module, args: cut(module, args, None))
        changed = hf(text).logits.double().log_softmax(-1)
        handle.remove()
    by_hand = float((own.exp() * (own - changed)).sum(-1).mean())
    assert float(found.effect[1, 4]) == pytest.approx(by_hand, abs=1e-5)


def test_the_users_model_is_as_it_was():
    hf = build("llama")
    before = {name: x.clone() for name, x in hf.state_dict().items()}
    rank(hw.open_model(hf), ids(batch=1))
    rank(hw.open_model(hf), ids(batch=1), "gradient")
    assert all(torch.equal(x, before[name]) for name, x in hf.state_dict().items())
    assert all(x.grad is None and x.requires_grad for x in hf.parameters())


def test_a_module_of_torch_that_has_tokens_before_the_batch():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(12, 3, 8, dropout=0.0)
    hf = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for weight in hf.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    x = torch.randn(7, 2, 12)
    model = hw.open_model(hf)
    found = rank(model, {"src": x})
    passage = Evaluator(model, "cosine").open({"src": x})
    assert not passage.forward.copies
    other = copy.deepcopy(hf)
    with torch.no_grad():
        other.layers[1].self_attn.out_proj.weight.t().unflatten(0, (3, -1))[2] = 0
        by_hand = float((1 - torch.cosine_similarity(hf(x), other(x), dim=-1)).mean())
    assert float(found.effect[1, 2]) == pytest.approx(by_hand, abs=1e-6)


def test_a_text_of_one_token_foretells_nothing():
    with pytest.raises(ArgumentError, match="text must have a token that is foretold, got 1 tokens in all"):
        rank(hw.open_model(build("llama")), torch.tensor([5]))
