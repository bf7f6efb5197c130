"""Attention that is read although it is unusual (float32 inside float64, subclasses of nn.MultiheadAttention), and plain refusals of what is not."""

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from transformers import BloomConfig, BloomForCausalLM, StaticCache

import headwise as hw
from benchmarks.tiny import build as built
from headwise.errors import ArgumentError, ModelError, UnseenAttention
from headwise.models.capture.eager_capture import BLANK, are_distributions, request_from_weights, softmax_dtype
from tests.models.tiny import build, drawn, ids


def in_dtype(name, dtype, **without):
    hf, given = built(name)
    given = {key: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for key, x in given.items() if key not in without}
    return hw.open_model(hf.to(dtype)), given


@pytest.mark.parametrize("name", ["bloom", "mpt", "xlm", "flaubert", "longt5"])
def test_a_softmax_in_float32_within_a_float64_model_is_judged_by_float32(name):
    model, given = in_dtype(name, torch.float64)
    run = model.run(given)
    assert run.proof.passed
    rows = run.weights(0, 0, part=run.places[0].part).sum(-1)
    assert float((rows - 1).abs().min()) < 1e-6


def test_bloom_in_float64():
    hf = drawn(BloomForCausalLM(BloomConfig(vocab_size=99, hidden_size=32, n_layer=1, n_head=4))).double()
    run = hw.open_model(hf).run(ids(1, 7))
    assert run.proof.passed
    single = hw.open_model(hf.float()).run(ids(1, 7))
    torch.testing.assert_close(run.weights(0, 0).float(), single.weights(0, 0), rtol=1e-4, atol=1e-5)


def test_prophetnet_in_float64_without_a_mask():
    model, given = in_dtype("prophetnet", torch.float64, attention_mask=True, decoder_attention_mask=True)
    assert model.run(given).proof.passed


@pytest.mark.parametrize("name", ["canine", "prophetnet"])
def test_a_model_that_computes_nan_itself_is_told_so(name):
    """Both make their mask in float32 and multiply it with the lowest float64 there, which is minus infinity: 0 times that is NaN."""
    model, given = in_dtype(name, torch.float64)
    with pytest.raises(ModelError, match=r"itself computes NaN as every attention weight of .* on this input in torch.float64. Try float32"):
        model.run(given)


@pytest.mark.parametrize("length", [11, 128, 129])
def test_longt5_in_float16(length):
    model, _ = in_dtype("longt5", torch.float16)
    run = model.run({"input_ids": ids(1, length), "decoder_input_ids": ids(1, 5)})
    assert run.proof.passed
    assert any(BLANK in note for note in run.notes) == (length % 128 > 0)


def test_the_dtype_of_a_softmax_is_seen_from_its_numbers():
    scores = torch.randn(3, 5, 7, dtype=torch.float64)
    single, double = scores.float().softmax(-1).double(), scores.softmax(-1)
    assert (softmax_dtype(single), softmax_dtype(double), softmax_dtype(double.float())) == (torch.float32, torch.float64, torch.float32)
    assert are_distributions(single) and are_distributions(double)
    assert not are_distributions(double * (1 + 1e-9))  # in float64 that is no rounding
    assert not are_distributions(single * (1 + 1e-4))
    assert request_from_weights(single, torch.zeros(3, 7, 2).double(), 3).weights_dtype == torch.float32


def test_a_row_that_is_nan_throughout_sees_nothing_and_one_that_is_so_in_part_is_no_distribution():
    weights = torch.randn(2, 3, 5).softmax(-1)
    weights[1, 2] = torch.nan
    assert are_distributions(weights)
    assert request_from_weights(weights, torch.zeros(2, 5, 2), 2).notes[-1] == BLANK
    weights[0, 1, 3] = torch.nan
    assert not are_distributions(weights)


class Plain(nn.MultiheadAttention):
    pass


class Calling(nn.MultiheadAttention):
    """With a forward of its own around torch's."""

    def forward(self, *args, **kwargs):
        out, weights = super().forward(*args, **kwargs)
        return out * 2, weights


class Deep(Calling):
    pass


class Around(nn.Module):
    def __init__(self, attention, **said):
        super().__init__()
        self.attention, self.said = attention, said

    def forward(self, x):
        return self.attention(x, x, x, **self.said)[0]


@pytest.mark.parametrize("kind", [nn.MultiheadAttention, Plain, Calling, Deep])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("settings", [{"batch_first": True}, {"batch_first": True, "add_zero_attn": True}, {"batch_first": True, "bias": False}])
def test_a_subclass_of_torch_s_attention_is_read_like_torch_s_own(kind, need_weights, settings):
    torch.manual_seed(0)
    attention = kind(32, 4, **settings)
    own = nn.MultiheadAttention(32, 4, **settings)
    own.load_state_dict(attention.state_dict())
    hf, x = Around(attention, need_weights=need_weights).eval(), torch.randn(2, 7, 32)
    run, right = hw.open_model(hf).run({"x": x}), hw.open_model(Around(own, need_weights=need_weights).eval()).run({"x": x})
    assert [place.module for place in run.places] == ["attention"]
    assert run.proof.passed
    for head in range(4):
        torch.testing.assert_close(run.weights(0, head), right.weights(0, head))
    assert type(hf.attention) is kind  # the user's own is as it was


def test_a_subclass_inside_torch_s_encoder_layer():
    layer = nn.TransformerEncoderLayer(32, 4, 20, batch_first=True)
    layer.self_attn = Plain(32, 4, batch_first=True)
    run = hw.open_model(nn.Sequential(nn.TransformerEncoder(layer, 2)).eval()).run({"input": torch.randn(2, 7, 32)})
    assert (len(run.places), run.proof.passed) == (2, True)


class Flex(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.qkv = nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 96)

    def forward(self, x, both=True):
        x = self.first(x, x, x)[0] if both else x
        q, k, v = (y.unflatten(-1, (4, 8)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return flex_attention(q, k, v).transpose(1, 2).flatten(2)


class Holding(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.inner, self.both = Flex(), both

    def forward(self, x):
        return self.inner(x, self.both)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("length", [7, 1100])
def test_flex_attention_called_directly_is_refused_by_name(both, length):
    with pytest.raises(UnseenAttention, match=r"inner calls torch.nn.attention.flex_attention, .* its weights cannot be read. Call torch.nn.functional.scaled"):
        hw.open_model(Holding(both).eval()).run({"x": torch.randn(1, length, 32)})


def test_a_model_on_the_meta_device_is_refused_in_its_own_words():
    with pytest.raises(ModelError, match="LlamaForCausalLM is on the meta device, where tensors have shapes and no numbers .* Load its weights first"):
        hw.open_model(build("llama").to("meta")).run(ids())


def test_a_static_cache_is_refused_in_its_own_words():
    hf = build("llama")
    with pytest.raises(ArgumentError, match="input must not hold a StaticCache: a run reads the whole input at once .* Leave past_key_values out"):
        hw.open_model(hf).run({"input_ids": ids(), "past_key_values": StaticCache(hf.config, max_cache_len=32)})


def test_a_model_that_generates_with_a_static_cache_is_read():
    hf = build("llama")
    hf.generation_config.cache_implementation = "static"
    assert hw.open_model(hf).generate(ids(1, 5), 3).proof.passed
