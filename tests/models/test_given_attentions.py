"""Weights that were made elsewhere, as a run; what does not add up to 1 is refused."""

import pytest
import torch

import headwise as hw
from headwise.errors import ArgumentError, ArgumentTypeError, ModelError, WritesRefused
from tests.models.tiny import FAMILIES, build, given

TOKENS = [list("abcde")] * 2


def weights(layers=2, batch=2, heads=3, queries=5, keys=5, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return [(3 * torch.randn(batch, heads, queries, keys, generator=generator)).softmax(-1).to(dtype) for _ in range(layers)]


def test_attentions_of_transformers_give_the_statistics_of_a_run():
    hf = build("bert", attn_implementation="eager")
    inputs = given(FAMILIES["bert"])
    with torch.no_grad():
        found = hw.from_attentions(hf(**inputs, output_attentions=True).attentions)
    run = hw.open_model(hf).run(inputs)
    real = ~run.statistics["padding"].values[:, None, None]
    for name in ("entropy", "max_weight", "previous", "distance"):
        one, other = (torch.from_numpy(x.statistics[name].values) for x in (found, run))
        torch.testing.assert_close(one[torch.from_numpy(real).expand_as(one)], other[torch.from_numpy(real).expand_as(other)], atol=1e-5, rtol=1e-5)
    assert found.proof.passed


def test_a_cache_of_transformer_lens():
    one, two = weights()
    run = hw.from_attentions({"blocks.1.attn.hook_pattern": two, "blocks.0.attn.hook_pattern": one, "blocks.0.hook_resid_pre": torch.ones(1)}, TOKENS)
    torch.testing.assert_close(run.weights(1, 2, batch=1), two[1, 2], atol=1e-6, rtol=1e-6)
    assert run.statistics["token"].values[1].tolist() == list("abcde")
    assert run.statistics["layer_name"].values.tolist() == ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"]


def test_layers_of_other_shapes_are_parts_of_their_own():
    run = hw.from_attentions([*weights(), *weights(keys=7), *weights(1, queries=4, keys=4)])
    assert {name: part.sizes["layer"] for name, part in run.parts.items()} == {"self": 2, "cross": 2, "self.2": 1}


def test_half_precision_rounds_rows_and_is_taken():
    assert hw.from_attentions(weights(dtype=torch.bfloat16)).statistics.sizes["layer"] == 2


def test_what_needs_a_model_says_so():
    run = hw.from_attentions(weights())
    with pytest.raises(WritesRefused, match="layer 0 cannot be attributed to heads: only weights were given"):
        _ = run.writes
    with pytest.raises(ModelError, match="outputs must come from a model, got weights alone"):
        _ = run.outputs


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: torch.nn.functional.dropout(x, 0.5), "rows of weights must add up to 1, got .* in layer 0, head 0, query 0, batch row 0. After dropout"),
        (lambda x: x.masked_fill(torch.arange(5) == 0, 0), "rows of weights must add up to 1, got"),
        (lambda x: x.log(), "rows of weights must add up to 1, got -"),
        (lambda x: x.mean(1)[0], r"weights must be \[batch, heads, queries, keys\] or \[heads, queries, keys\], got \[5, 5\] in layer 0"),
    ],
)
def test_no_weights(plain, spoil, message):
    with pytest.raises(ArgumentError, match=message):
        hw.from_attentions([spoil(weights()[0])])


@pytest.mark.parametrize(
    ("tensors", "tokens", "kind", "message"),
    [
        (torch.ones(2, 2), None, ArgumentTypeError, "tensors must be a list with a tensor for each layer, or a cache, got Tensor"),
        ([], None, ArgumentTypeError, "tensors must be a list with a tensor for each layer, or a cache, got list"),
        ([torch.ones(1, 1, 1, 1, dtype=torch.long)], None, ArgumentTypeError, r"weights must be tensors of floats, got torch.int64 in layer 0"),
        ({"a": torch.ones(1)}, None, ArgumentError, r"tensors must hold blocks\.N\.attn\.hook_pattern, got a\."),
        ([torch.ones(1, 1, 1, 1)], ["a", "b"], ArgumentError, r"tokens must be 1 for each of 1 batch rows, got \[2\]"),
    ],
)
def test_bad_input(plain, tensors, tokens, kind, message):
    with pytest.raises(kind, match=message):
        hw.from_attentions(tensors, tokens)
