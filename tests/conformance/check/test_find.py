"""What the caller points to, and what is said where there is no such thing."""

import sys

import pytest
import torch
from torch import nn

from headwise.conformance.adapters import peer as peer_module
from headwise.conformance.adapters.resolve import construct, declared_conventions, import_subject, peers, resolve
from headwise.conformance.conventions import Conventions
from headwise.conformance.invariants.invariant import invariant_named
from headwise.errors import ArgumentError, ArgumentTypeError, MissingPackage
from tests.conformance.check import strangers


def test_every_peer_has_a_sentence_and_a_name_of_its_own():
    assert len(peers()) >= 16
    assert all(peer.statement.endswith(".") for peer in peers().values())
    assert {"torch_sdpa", "torch_mha", "flex_attention", "torch_compiled", "jax_attention", "keras_torch", "keras_jax", "onnx_grouped"} <= set(peers())


@pytest.mark.parametrize("name", peers())
def test_a_peer_whose_package_is_missing_says_so(plain, monkeypatch, name):
    if not peers()[name].needs:
        return
    monkeypatch.setattr(peer_module, "find_spec", lambda module: None)
    with pytest.raises(MissingPackage, match=rf"{name} needs the package \w+, which is not installed\. Run `pip install 'headwise\[peers\]'`\."):
        resolve(name)


def test_a_function_that_is_known_is_called_as_its_peer_is():
    (found,) = resolve("torch.nn.functional:scaled_dot_product_attention")
    assert found.subject.name == "torch_sdpa"
    assert {stated.name: stated.source for stated in found.conventions}["corner"] == "documented"


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("torch", ArgumentError, "subject must be package.module:attribute or a peer, got 'torch'. Did you mean torch_mha"),
        ("tourch:nn", ArgumentError, "subject must name a module that can be imported, got 'tourch'. Check the spelling, and that you are in the folder"),
        ("torch.nn.funktional:silu", ArgumentError, "subject must name a module that can be imported, got 'torch.nn.funktional'. Did you mean functional"),
        ("torch.nn:Multihead", ArgumentError, "subject must name something in torch.nn, got 'Multihead'. Did you mean MultiheadAttention"),
        (
            "tests.conformance.check.needing:attend",
            MissingPackage,
            "tests.conformance.check.needing needs the package a_package_that_is_not, which is not installed.",
        ),
    ],
)
def test_a_path_that_leads_nowhere(plain, path, error, said):
    with pytest.raises(error, match=said):
        import_subject(path)


def test_arguments_of_classes(plain):
    with pytest.raises(ArgumentError, match=r"arguments must be those that torch.nn:Linear takes, got width=3 \(.*\). Pass each with --arg NAME=VALUE."):
        construct(nn.Linear, "torch.nn:Linear", {"width": 3})
    with pytest.raises(ArgumentTypeError, match="arguments must come with a class, got it which is int. Leave them out."):
        construct(3, "it", {"width": 3})
    with pytest.raises(
        ArgumentTypeError, match=r"subject must make an nn.Module or be a function, got tests.conformance.check.strangers:correct which makes Tensor."
    ):
        resolve(strangers.correct, {name: torch.ones(1, 1, 1, 1) for name in ("query", "key", "value")})
    with pytest.raises(ArgumentError, match="arguments of a module must be projections, num_heads or num_kv_heads, got width. Leave it out."):
        resolve(strangers.SelfAttention(), {"width": 3})


def test_arguments_of_peers(plain):
    with pytest.raises(ArgumentError, match=r"arguments must be those that torch_sdpa takes, got heads \(.*\). Leave them out or correct them."):
        resolve("torch_sdpa", {"heads": 3})
    with pytest.raises(ArgumentError, match="dtype must be one that torch_compiled takes, got torch.float64. Choose torch.float32."):
        resolve("torch_compiled", dtype=torch.float64)
    with pytest.raises(ArgumentError, match="backend must be one of inductor, aot_eager, eager, got 'fast'. Choose one of them."):
        resolve("torch_compiled", {"backend": "fast"})
    with pytest.raises(ArgumentError, match="model must be one of llama, mistral, bert, got 'gemma2'. Choose one of them, or leave it out for all."):
        resolve("transformers_sdpa", {"model": "gemma2"})
    with pytest.raises(ArgumentError, match="device must be cpu for torch_mha, got meta. Leave it out."):
        resolve("torch_mha", device="meta")


def test_all_conventions_may_be_declared_at_once():
    assert declared_conventions(Conventions(corner="top-left"))["corner"] == "top-left"
    assert set(declared_conventions(Conventions())) == set(Conventions.__dataclass_fields__)


def test_an_invariant_that_does_not_exist(plain):
    with pytest.raises(ArgumentError, match="invariant must be one of .*rows_sum_to_one.*, got 'rows'. Check the name."):
        invariant_named("rows")


def test_this_module_is_found_by_path():
    assert import_subject("tests.conformance.check.test_find:test_this_module_is_found_by_path").__module__ == "tests.conformance.check.test_find"
    assert "tests.conformance.check.test_find" in sys.modules
