"""torch's own attention modules, as they are called in any module: the same numbers as torch's, every head heard."""

import pytest
import torch
from torch import nn

import headwise as hw
from tests.models.tiny import drawn

WIDTH, HEADS = 12, 3


class Asks(nn.Module):
    """An `nn.MultiheadAttention`, called in one of the ways that it allows."""

    def __init__(self, weights=False, batch_first=True, **settings):
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **settings)
        self.weights = weights

    def forward(self, x, y, hidden=None, mask=None):
        out, weights = self.inner(x, y, y, key_padding_mask=hidden, attn_mask=mask, need_weights=self.weights)
        return (out, weights) if self.weights else out


def inputs(batch_first=True):
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(2, 5, WIDTH, generator=generator), torch.randn(2, 7, WIDTH, generator=generator)
    return (x, y) if batch_first else (x.transpose(0, 1), y.transpose(0, 1))


HIDDEN = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
LATER = ~torch.ones(5, 7, dtype=torch.bool).tril(2)
WAYS = {
    "plain": ({}, {}),
    "padding": ({}, {"hidden": HIDDEN}),
    "mask": ({}, {"mask": LATER}),
    "both": ({}, {"hidden": HIDDEN, "mask": LATER}),
    "a float mask for each head": ({}, {"mask": torch.randn(6, 5, 7, generator=torch.Generator().manual_seed(1))}),
    "one more key": ({"add_bias_kv": True}, {"hidden": HIDDEN}),
    "a key of zeros": ({"add_zero_attn": True}, {"mask": LATER}),
    "no bias": ({"bias": False}, {}),
    "tokens first": ({"batch_first": False}, {"hidden": HIDDEN}),
}


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_calling_gives_torchs_own_numbers(way, weights):
    settings, given = WAYS[way]
    model = drawn(Asks(weights, **settings))
    x, y = inputs(settings.get("batch_first", True))
    run = hw.open_model(model).run({"x": x, "y": y, **given})
    with torch.no_grad():
        right = model(x, y, **given)
    for found, one in zip(run.outputs.values(), right if weights else [right], strict=True):
        torch.testing.assert_close(found, one, atol=1e-5, rtol=1e-5)
    assert run.proof.passed, str(run.proof)
    extra = sum(name in settings for name in ("add_bias_kv", "add_zero_attn"))
    assert run.weights(0, 2, batch=1).shape == (5, 7 + extra)
    assert run.writes.norm.shape == (2, 1, HEADS, 5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own path of the module as it was loaded
@pytest.mark.parametrize("padded", [False, True])
def test_the_fused_path_of_an_encoder_is_heard_too(padded):
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
    model = drawn(nn.TransformerEncoder(layer, 3, enable_nested_tensor=True))
    x = inputs()[1]
    given = {"src": x, "src_key_padding_mask": HIDDEN} if padded else {"src": x}
    run = hw.open_model(model).run(given)
    with torch.no_grad():
        right = model(**given)
    real = ~HIDDEN if padded else torch.ones(2, 7, dtype=torch.bool)
    found = run.outputs["output 0"][:, : right.shape[1]]
    torch.testing.assert_close(found[real[:, : right.shape[1]]], right[real[:, : right.shape[1]]], atol=1e-5, rtol=1e-5)
    assert run.proof.passed, str(run.proof)
    assert run.statistics.sizes["layer"] == 3
    assert run.statistics["layer_name"].values.tolist() == [f"layers.{i}.self_attn" for i in range(3)]


def test_one_text_without_a_batch():
    model = drawn(Asks())
    x, y = (z[0] for z in inputs())
    run = hw.open_model(model).run({"x": x, "y": y})
    with torch.no_grad():
        torch.testing.assert_close(run.outputs["output 0"], model(x, y), atol=1e-5, rtol=1e-5)


def test_the_users_module_is_left_as_it_is():
    model = drawn(Asks())
    x, y = inputs()
    hw.open_model(model).run({"x": x, "y": y})
    assert "forward" not in vars(model.inner)
