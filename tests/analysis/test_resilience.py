"""Silencing heads one by one and many at once, by hand."""

import pytest
import torch

import headwise as hw
from headwise.errors import ArgumentError
from tests.analysis.plain import loss, output_of, without
from tests.models.tiny import build, ids

TEXT = ids(batch=1, length=9)
TEXTS = [TEXT, ids(batch=1, length=6, seed=4)]


@pytest.fixture(scope="module")
def found():
    return hw.resilience(hw.open_model(build("llama")), TEXTS, shares=(0, 0.5, 1), draws=3)


def test_the_curve_is_the_loss_without_those_heads(found):
    hf = build("llama")
    ranked = hw.rank(hw.open_model(hf), TEXTS)["rank"].values
    best = [(layer, head) for layer in range(3) for head in range(6) if ranked[layer, head] <= 9]
    worst = [(layer, head) for layer in range(3) for head in range(6) if ranked[layer, head] > 9]

    def mean(other):
        return (loss(other, {"input_ids": TEXTS[0]}) * 8 + loss(other, {"input_ids": TEXTS[1]}) * 5) / 13

    every = [*best, *worst]
    assert found.loss.sel(share=0).values.tolist() == pytest.approx([mean(hf)] * 3, abs=1e-5)
    assert found.loss.sel(share=1).values.tolist() == pytest.approx([mean(without(hf, "llama", every))] * 3, abs=1e-5)
    assert float(found.loss.sel(order="best first", share=0.5)) == pytest.approx(mean(without(hf, "llama", best)), abs=1e-5)
    assert float(found.loss.sel(order="worst first", share=0.5)) == pytest.approx(mean(without(hf, "llama", worst)), abs=1e-5)
    assert found.loss_low.sel(order="random", share=0.5) < found.loss.sel(order="random", share=0.5) < found.loss_high.sel(order="random", share=0.5)


def centred(hf, text):
    logits = hf(text).logits.detach().double()
    return (logits - logits.mean(-1, keepdim=True))[0, :-1].gather(-1, text[0, 1:, None])[:, 0]


def test_total_is_the_fall_of_the_centred_logit(found):
    hf = build("llama")
    fallen = [(centred(hf, text) - centred(without(hf, "llama", [(0, 2)]), text)).sum() for text in TEXTS]
    assert float(found.total[0, 2]) == pytest.approx(float(sum(fallen) / 13), abs=1e-4)
    assert float(found.repair[0, 2]) == pytest.approx(float(found.direct[0, 2] - found.total[0, 2]), abs=1e-9)


def test_direct_is_what_the_write_does_alone(found):
    hf = build("llama")
    read: list[torch.Tensor] = []
    last: list[torch.Tensor] = []
    output_of(hf, "llama", 1).register_forward_pre_hook(lambda module, args: read.append(args[0].detach()))
    hf.model.norm.register_forward_pre_hook(lambda module, args: last.append(args[0].detach()))
    sums = 0.0
    for text in TEXTS:
        hf(text)
        block = hf.model.layers[1].self_attn.o_proj.weight.detach().t().unflatten(0, (6, -1))[3]
        write = read[-1].unflatten(-1, (6, -1))[0, :, 3] @ block
        scale = (last[-1].square().mean(-1, keepdim=True) + hf.model.norm.variance_epsilon).rsqrt()[0]
        logits = (write * scale * hf.model.norm.weight.detach()) @ hf.lm_head.weight.detach().t()
        sums += float((logits - logits.mean(-1, keepdim=True))[:-1].gather(-1, text[0, 1:, None]).sum())
    assert float(found.direct[1, 3]) == pytest.approx(sums / 13, abs=1e-4)


def test_who_makes_up_is_who_writes_otherwise(found):
    makes_up = found.makes_up
    assert (makes_up.sel(silenced="1.3", other=["0.0", "0.5", "1.0", "1.3", "1.5"]) == 0).all()  # earlier heads and neighbours know nothing of it
    later = makes_up.sel(silenced="1.3", other=[f"2.{head}" for head in range(6)])
    assert (abs(later) > 1e-6).all()


def test_an_encoder_has_a_curve_only():
    found = hw.resilience(hw.open_model(build("bert")), TEXT, shares=(0, 1), draws=2)
    assert set(found.data_vars) == {"loss", "loss_low", "loss_high"}
    assert "direct effects on logits must be" in found.attrs["refusal"]
    assert (abs(found.loss.sel(share=0)) < 1e-5).all() and (found.loss.sel(share=1) > 1e-3).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shares": (0, 2)}, r"shares must lie within 0..1, got \[0, 2\]"),
        ({"shares": ()}, r"shares must lie within 0..1, got \[\]"),
        ({"draws": 0}, "draws must be a whole number from 1, got 0"),
        ({"by": "luck"}, "method must be one of ablation, gradient, write, patch, got 'luck'"),
    ],
)
def test_what_cannot_be_asked(settings, said):
    with pytest.raises(ArgumentError, match=said):
        hw.resilience(hw.open_model(build("llama")), TEXT, **settings)
