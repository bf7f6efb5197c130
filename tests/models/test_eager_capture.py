"""Attention that a model computes itself: its weights are the ones that it used, whatever the shape that it keeps them in."""

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.errors import UnseenAttention
from headwise.models.capture.eager_capture import are_distributions, count_heads, request_from_weights
from tests.models.tiny import drawn

WIDTH, HEADS = 24, 6


class Own(nn.Module):
    """One attention, kept with four axes or with three."""

    def __init__(self, flat: bool = False, spoil: str = "") -> None:
        super().__init__()
        self.num_heads, self.flat, self.spoil = HEADS, flat, spoil
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.kept = None

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        if self.flat:
            q, k, v = (y.flatten(0, 1) for y in (q, k, v))
        weights = (q @ k.transpose(-1, -2) * 0.7).softmax(-1)
        if self.spoil == "halved":
            weights = weights * 0.5
        self.kept = weights.detach()
        z = weights @ v
        z = z.unflatten(0, (-1, HEADS)) if self.flat else z
        said = z.transpose(1, 2).flatten(2)
        return self.o(said.roll(1, -1) if self.spoil == "rolled" else said)


@pytest.fixture
def x():
    return torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("flat", [False, True])
def test_the_weights_are_the_ones_that_the_model_used(flat, x):
    own = drawn(Own(flat))
    run = hw.open_model(own).run({"x": x})
    own(x)
    kept = own.kept.reshape(2, HEADS, 7, 7)
    found = torch.stack([torch.stack([run.weights(0, head, batch=row) for head in range(HEADS)]) for row in range(2)])
    torch.testing.assert_close(found, kept, atol=5e-7, rtol=1e-5)
    assert run.proof.passed, str(run.proof)
    assert run.writes.norm.shape == (2, 1, HEADS, 7)
    assert any("its weights are the ones that it used" in note for note in run.notes)


def test_a_later_pass_tells_the_same_as_the_one_that_was_kept(x):
    model = hw.open_model(drawn(Own()))
    kept, made_again = model.run({"x": x}), model.run({"x": x}, memory=0)
    assert torch.equal(kept.weights(0, 3, batch=1), made_again.weights(0, 3, batch=1))


def test_rows_that_do_not_add_up_are_refused_by_name(x):
    with pytest.raises(UnseenAttention, match=r"must have weights whose rows add up to 1 .* of Holder where they do not: inner\. Their heads"):
        hw.open_model(drawn(Holder("halved"))).run({"x": x})


def test_writes_are_refused_where_heads_are_mixed(x):
    run = hw.open_model(drawn(Own(spoil="rolled"))).run({"x": x})
    with pytest.raises(hw.HeadwiseError, match="cannot be attributed to heads"):
        _ = run.writes


class Holder(nn.Module):
    def __init__(self, spoil: str) -> None:
        super().__init__()
        self.inner = Own(spoil=spoil)

    def forward(self, x):
        return self.inner(x)


class PointAttention(nn.Module):
    """A softmax over three points that scales their values one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(WIDTH, 3)

    def forward(self, x):
        share = self.score(x).softmax(-1)
        return x + sum(share[..., i : i + 1] * x.roll(i, 1) for i in range(3))


def test_attention_over_points_alone_is_refused_by_name(x):
    with pytest.raises(UnseenAttention, match=r"must be seen to multiply values .* got 1 modules of Sequential where that is not seen: 0\. Sampling points"):
        hw.open_model(drawn(nn.Sequential(PointAttention()))).run({"input": x})


def test_attention_over_points_beside_another_is_noted_by_name(x):
    run = hw.open_model(drawn(nn.Sequential(PointAttention(), Own()))).run({"input": x})
    assert any(note.startswith("0: not seen") for note in run.notes)
    assert run.statistics.sizes["layer"] == 1


def test_heads_are_counted_by_the_softmax_or_by_the_module_around():
    weights = torch.rand(12, 5, 7)
    assert count_heads((2, 6, 5, 7), [], weights) == 6
    assert count_heads((2, 3, 2, 5, 7), [], weights) == 2  # windows count as batch rows
    assert count_heads((12, 5, 7), [nn.Linear(2, 2), Own()], weights) == HEADS
    assert count_heads((12, 5, 7), [], weights) == 1
    assert count_heads((2, 6, 7, 5), [], weights) is None


def test_rows_are_told_from_other_numbers():
    weights = torch.rand(3, 5, 11).softmax(-1)
    assert are_distributions(weights)
    assert are_distributions(weights.masked_fill(torch.arange(5)[:, None] == 2, 0))  # a row that sees nothing
    assert not are_distributions(weights * 1.01)
    assert not are_distributions(torch.cat([-weights[..., :1], weights[..., :1] * 2, weights[..., 1:]], -1))


def test_the_call_has_the_weights_that_were_heard():
    weights = torch.rand(6, 5, 7).softmax(-1).masked_fill(torch.arange(7) == 3, 0)
    weights = weights / weights.sum(-1, keepdim=True)
    request = request_from_weights(weights, torch.randn(6, 7, 3), 3)
    found = hw.attend(request.query, request.key, request.value, bias=request.call.bias, scale=1.0)
    torch.testing.assert_close(found.output.flatten(0, 1), weights @ request.value.flatten(0, 1))
    assert float(found.lse.abs().max()) < 1e-6
