import pytest
import torch
from torch import nn

from headwise.experiments.trained.train import _height, train_model


def test_a_line_is_fitted():
    torch.manual_seed(0)
    model, told = nn.Linear(3, 1), []
    x = torch.randn(64, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3
    losses = train_model(model, lambda step: (model(x)[:, 0] - y).square().mean(), 300, 0.1, lambda stage, done, total: told.append((done, total)))
    assert losses[0] > 1 and losses[-1] < 1e-3 and len(losses) == 300
    assert told[0] == (1, 300) and told[-1] == (300, 300)
    assert not model.training


def test_the_rate_rises_and_falls():
    heights = [_height(step, 100) for step in range(100)]
    assert heights[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert heights[5:] == sorted(heights[5:], reverse=True) and heights[-1] < 0.001
    assert _height(0, 1) == 1.0
