"""`hw.check` takes `hw.MultiHeadAttention` with each of its options, accepts it, and detects planted faults; and modules that keep bare parameters."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.attention.layer import LayerConfig
from headwise.conformance.adapters.headwise_module import fixed_options
from headwise.conformance.adapters.resolve import resolve
from headwise.conformance.answer import PLAIN
from headwise.conformance.check import check
from headwise.conformance.problems.problem_pool import make_layer_problem
from headwise.errors import NotSupported
from tests.conformance.check import strangers

OPTIONS = {
    "plain": {},
    "num_kv_heads": {"num_kv_heads": 2},
    "head_dim": {"head_dim": 8},
    "value_dim": {"value_dim": 3},
    "causal window": {"causal": True, "window": 3},
    "two-sided window": {"window": (1, 1)},
    "softcap": {"softcap": 5.0},
    "scale": {"scale": 0.3},
    "sink": {"sink": True},
    "rotary": {"position": hw.Rotary(), "causal": True},
    "alibi": {"position": hw.Alibi()},
    "buckets": {"position": hw.RelativeBuckets(torch.zeros(8, 4), max_distance=6)},
    "no bias": {"bias": False},
    "bias of q, k and v": {"bias": "qkv"},
    "cross-attention": {"context_dim": 6},
    "sequence first": {"batch_first": False},
    "dropout": {"dropout": 0.25},
}


def module(kind: type = hw.MultiHeadAttention, **options) -> nn.Module:
    torch.manual_seed(0)
    return kind(16, 4, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_of_our_layer_is_checked_and_passes(plain, options):
    report = check(module(**options), shrinking=0.0)
    assert report.passed, str(report)
    assert len(report.problems_passed) > 15


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_what_the_module_was_made_without_is_listed(plain, options):
    found = resolve(module(**options))[-1]
    fixed = fixed_options(module(**options))
    for name in ("causal", "window", "scale", "softcap", "sink", "dropout"):
        assert (name in found.subject.supports) == (name in fixed.names)
        assert name in fixed.names or found.not_tested[name] == "the module was made without it"


@pytest.mark.parametrize(
    ("options", "problem", "said"),
    [
        ({"causal": True}, {}, "The module is always called with causal=True."),
        ({}, {"causal": True}, "The module has no option causal."),
        ({"window": 3}, {"window": 4}, "The module is always called with window=3."),
        ({}, {"softcap": 2.0}, "The module has no option softcap."),
        ({"sink": True}, {}, "The module always has a sink."),
        ({}, {"position": hw.Rotary()}, "The module has no position encoding."),
        ({"position": hw.Rotary()}, {}, "The module has a position encoding of its own."),
        ({"bias": "qkv"}, {}, "The module has no b_o."),
        ({"causal": True}, {"causal": True, "chunks": (2, 3), "query_offset": 0}, "Chunks are decoded: causally, and without weights, an offset or a context."),
    ],
)
def test_another_option_than_its_own_is_refused_by_name(options, problem, said):
    layer = next(found.subject for found in resolve(module(**options)) if found.subject.level == "layer")
    sizes = {"d_model": 16, "heads": 4, "groups": 4, "head_dim": 4, "value_dim": 4}
    with pytest.raises(NotSupported, match=said):
        layer.attend(make_layer_problem(sizes=sizes, **problem), PLAIN)


class MaskIgnored(hw.MultiHeadAttention):
    def forward(self, x, context=None, *, mask=None, bias=None, query_offset=None):
        return super().forward(x, context, bias=bias, query_offset=query_offset)


class CacheIgnored(hw.MultiHeadAttention):
    def decode(self, x, past=None, *, mask=None, bias=None):
        found = super().decode(x, past, mask=mask, bias=bias)
        return found if past is None else replace(found, out=2 * found.out)


class WeightsReversed(hw.MultiHeadAttention):
    def trace(self, *arguments, **keywords):
        found = super().trace(*arguments, **keywords)
        return replace(found, weights=found.weights.flip(1))


class KeyHeadsSwapped(hw.MultiHeadAttention):
    @property
    def params(self):
        found = super().params
        return replace(found, w_k=found.w_k.flip(1), b_k=None if found.b_k is None else found.b_k.flip(0))


class OutputBiasDropped(hw.MultiHeadAttention):
    @property
    def params(self):
        return replace(super().params, b_o=None)


class DropsInEvaluation(hw.MultiHeadAttention):
    @property
    def config(self) -> LayerConfig:
        return replace(super().config, dropout=self._config.dropout)


FAULTS = {
    "mask ignored": (MaskIgnored, {}),
    "cache ignored": (CacheIgnored, {"causal": True}),
    "weights of the wrong head": (WeightsReversed, {}),
    "key heads swapped": (KeyHeadsSwapped, {"num_kv_heads": 2}),
    "output bias dropped": (OutputBiasDropped, {}),
    "dropout in evaluation": (DropsInEvaluation, {"dropout": 0.25}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_in_our_layer_is_detected(plain, name):
    kind, options = FAULTS[name]
    report = check(module(kind, **options), shrinking=0.0)
    assert not report.passed, name
    assert any(failure.severity == "wrong" for failure in report.failures)


class PackedParameters(nn.Module):
    """q, k and v in one bare parameter, as nn.MultiheadAttention keeps them, with grouped heads."""

    def __init__(self, mapping: str = "shared") -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.mapping = 4, 2, mapping
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.randn(32, 16) / 4), nn.Parameter(torch.zeros(32))
        self.out_proj = nn.Linear(16, 16)

    def forward(self, x, mask=None):
        q, k, v = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).split((16, 8, 8), -1)
        q, k, v = (part.unflatten(-1, (-1, 4)).transpose(1, 2) for part in (q, k, v))
        if self.mapping == "tiled":
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
        return self.out_proj(strangers.correct(q, k, v, mask=mask).transpose(1, 2).flatten(2))


class ByHeadParameters(nn.Module):
    """W_Q [H, M, D] and W_O [H, D, M], as TransformerLens keeps them."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("W_Q", "W_K", "W_V"):
            self.register_parameter(name, nn.Parameter(torch.randn(4, 16, 4) / 4))
        self.W_O = nn.Parameter(torch.randn(4, 4, 16) / 4)

    def forward(self, x):
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        return torch.einsum("bhtd,hdm->btm", strangers.correct(q, k, v), self.W_O)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PackedParameters, ByHeadParameters])
def test_modules_with_bare_parameters_are_checked_and_pass(plain, kind):
    report = check(kind(), shrinking=0.0)
    assert report.passed, str(report)
    assert len(report.problems_passed) > 12


@pytest.mark.slow
def test_a_fault_in_a_module_with_bare_parameters_is_detected(plain):
    assert not check(PackedParameters("tiled"), shrinking=0.0).passed
