"""No attention is missed in silence: it is among the layers, or the run is refused and the message names the module."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import BloomConfig, BloomForCausalLM, MixtralConfig, MixtralForCausalLM, SiglipVisionConfig, SiglipVisionModel
from transformers.masking_utils import causal_mask_function

import headwise as hw
from headwise.errors import UnseenAttention
from headwise.models.capture.recorder import CaptureSpec, Recorder
from headwise.models.capture.softmax_detector import SoftmaxDetector
from headwise.models.layout import Layout
from headwise.models.masks.diagonal_bias import DiagonalTensor
from headwise.models.masks.mask_description import MaskDescription, MaskHandle
from tests.models.tiny import FAMILIES, GROUPED, build, drawn, given


class Mixer(nn.Module):
    """Attention by a name that does not tell, in place of a feed-forward part."""

    def __init__(self, how):
        super().__init__()
        self.how, self.q, self.k = how, nn.Linear(24, 24), nn.Linear(24, 24)
        self.torch = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x):
        q, k = self.q(x).unflatten(-1, (3, 8)).transpose(1, 2), self.k(x).unflatten(-1, (3, 8)).transpose(1, 2)
        return HOW[self.how](self, q, k, x)


def joined(z):
    return z.transpose(1, 2).flatten(2)


def by_hand(q, k):
    mass = (q @ k.transpose(-1, -2) / 8).exp()
    return mass / mass.sum(-1, keepdim=True)


HOW = {
    "softmax": lambda self, q, k, x: joined((q @ k.transpose(-1, -2)).softmax(-1) @ k),
    "softmax in another dtype": lambda self, q, k, x: joined((q @ k.transpose(-1, -2)).softmax(-1, dtype=torch.float64).to(q) @ k),
    "einsum": lambda self, q, k, x: torch.einsum("bhts,bhse->bthe", torch.einsum("bhtd,bhsd->bhts", q, k).softmax(-1), k).flatten(2),
    "exponentials by hand": lambda self, q, k, x: joined(by_hand(q, k) @ k),
    "a mask after the softmax": lambda self, q, k, x: joined(((q @ k.transpose(-1, -2)).softmax(-1) * torch.ones(1, 1, x.shape[1], 1)) @ k),
    "one head": lambda self, q, k, x: (x @ x.transpose(-1, -2)).softmax(-1) @ x,
    "fused": lambda self, q, k, x: joined(scaled_dot_product_attention(q, k, k)),
    "fused and causal": lambda self, q, k, x: joined(scaled_dot_product_attention(q, k, k, is_causal=True)),
    "nn.MultiheadAttention": lambda self, q, k, x: self.torch(x, x, x)[0],
    "nn.MultiheadAttention, its fast path": lambda self, q, k, x: self.torch(x, x, x, need_weights=False)[0],
}


@pytest.mark.parametrize("how", HOW)
def test_attention_of_one_s_own_in_a_model(how):
    hf = build("llama")
    hf.model.layers[1].mlp = Mixer(how)
    drawn(hf)
    seen_or_refused(hf, given(FAMILIES["llama"]), ["model.layers.1.mlp"], others=3)


class Gated(nn.Module):
    """Attention of one's own whose rows are no weights: a tool that looks for softmaxes would show them as such."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.g = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 1)

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).transpose(-1, -2)).softmax(-1) * self.g(x).sigmoid()
        return weights @ x


def test_attention_of_one_s_own_that_cannot_be_read_is_refused_by_name():
    hf = build("llama")
    hf.model.layers[1].mlp = Gated()
    with pytest.raises(UnseenAttention, match="got 1 modules of LlamaForCausalLM where they do not: model.layers.1.mlp"):
        hw.open_model(drawn(hf)).run(given(FAMILIES["llama"]))


class Nowhere:
    """A scene in which nothing happens."""

    busy = False

    def where(self):
        return ()

    def is_within_tokens(self, shape):
        return False

    def capture_product(self, weights, value, said, shape):
        return None

    def capture_fused(self, named, said):
        return None


def test_what_wears_a_tensor_s_clothes_is_no_weight_of_the_model():
    told = MaskHandle(MaskDescription(batch_size=1, q_length=3, kv_length=3, mask_function=causal_mask_function))
    plane = DiagonalTensor(torch.arange(5.0)[None], (-2, -1), 3)
    weight = torch.randn(3, 3)
    detector = SoftmaxDetector(Nowhere(), [weight])
    assert detector._is_learned(weight) and detector._is_learned(weight[1:])
    assert not detector._is_learned(torch.randn(3, 3))
    assert not detector._is_learned(told) and not detector._is_learned(plane)
    with detector:
        copied = weight.clone()
        doubled = weight * 2
    assert detector._is_learned(copied) and not detector._is_learned(doubled)


@pytest.mark.parametrize(
    ("shape", "within"),
    [
        ((2, 11, 4, 4), True),  # streams of each token
        ((2, 11, 11, 11), False),  # as many heads as tokens
        ((2, 4, 11, 11), False),
        ((2, 11, 4, 5), False),
        ((2, 11, 11), False),
        ((3, 11, 4, 4), False),
    ],
)
def test_what_mixes_within_a_token_is_told_by_its_shape(shape, within):
    recorder = Recorder(nn.Linear(2, 2), Layout(()), {"input_ids": torch.zeros(2, 11)}, CaptureSpec((), lambda record: None))
    assert recorder.is_within_tokens(shape) is within
    nothing = Recorder(nn.Linear(2, 2), Layout(()), {"pixel_values": torch.zeros(2, 11)}, CaptureSpec((), lambda record: None))
    assert not nothing.is_within_tokens(shape)


def test_attention_added_after_the_first_run():
    model = hw.open_model(build("llama"))
    model.run(given(FAMILIES["llama"]))
    model.hf.model.layers[1].mlp = Mixer("softmax").eval()
    seen_or_refused(model.hf, given(FAMILIES["llama"]), ["model.layers.1.mlp"], others=3, model=model)


def test_bloom():
    hf = drawn(BloomForCausalLM(BloomConfig(hidden_size=24, n_head=3, n_layer=2, vocab_size=97)))
    seen_or_refused(hf, given(FAMILIES["llama"]), ["transformer.h.0.self_attention", "transformer.h.1.self_attention"], others=0)


def test_the_pooling_head_of_siglip():
    config = SiglipVisionConfig(hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, image_size=8, patch_size=4)
    inputs = {"pixel_values": torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))}
    seen_or_refused(drawn(SiglipVisionModel(config)), inputs, ["head.attention"], others=2)


def test_a_router_is_no_attention():
    hf = drawn(MixtralForCausalLM(MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2)))
    for length in (2, 4, 11):  # also as many tokens as experts
        run = hw.open_model(hf).run(torch.arange(3, 3 + length))
        assert run.statistics.sizes["layer"] == 3


class Gate(nn.Module):
    """A softmax that scales features, and one that looks up learned vectors: neither mixes tokens."""

    def __init__(self):
        super().__init__()
        self.score, self.table = nn.Linear(24, 24), nn.Parameter(torch.randn(24, 24))

    def forward(self, x):
        return self.score(x).softmax(-1) * x + self.score(x).softmax(-1) @ self.table


def test_a_gate_and_a_lookup_are_no_attention():
    hf = build("llama")
    hf.model.layers[1].mlp = Gate()
    run = hw.open_model(drawn(hf)).run(given(FAMILIES["llama"]))
    assert run.statistics.sizes["layer"] == 3


def seen_or_refused(hf, inputs, modules, others, model=None):
    """`others` are the layers that pass through the interface."""
    run, refusal = None, ""
    try:
        run = (model or hw.open_model(hf)).run(inputs)
    except UnseenAttention as error:
        refusal = str(error)
    if run is None:
        assert "attention of a model must" in refusal
        assert all(name in refusal for name in modules)
        return
    names = [name for part in run.parts.values() for name in part["layer_name"].values.tolist()]
    assert len(names) == len(modules) + others
    for module in modules:
        assert any(name.startswith(module) for name in names), (module, names)
    assert run.proof.passed, str(run.proof)
