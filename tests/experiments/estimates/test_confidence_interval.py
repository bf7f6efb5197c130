import pytest
import torch

from headwise.experiments.card import Number
from headwise.experiments.estimates.confidence_interval import mean_over_texts, side_of, texts_needed


def test_a_mean_over_texts_weighs_them_by_what_each_is_a_mean_of():
    values, counts = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 1.0, 6.0])
    found = mean_over_texts(values, counts, means="loss", unit="nats", published="3.2")
    assert found.value == pytest.approx(27 / 8)
    assert found.low < found.value < found.high
    assert (found.means, found.unit, found.published) == ("loss", "nats", "3.2")


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    torch.manual_seed(0)
    hits = [found.low < 0 < found.high for found in (mean_over_texts(torch.randn(40), seed=seed) for seed in range(200))]
    assert 0.88 < sum(hits) / len(hits) < 0.99


def test_sides_of_a_bar():
    number = Number(2.0, low=1.0, high=3.0)
    assert [side_of(number, bar) for bar in (0.5, 1.0, 2.5, 3.0, 3.5)] == ["above", "unsure", "unsure", "unsure", "below"]
    assert [side_of(Number(2.0), bar) for bar in (1.0, 2.0, 3.0)] == ["above", "unsure", "below"]


def test_as_many_texts_as_would_decide():
    number = Number(2.0, low=1.0, high=3.0)
    assert texts_needed(number, 1.5, 10) == 40
    assert texts_needed(number, 0.5, 10) == 10  # it is decided
    assert texts_needed(number, 2.0, 10) is None
    assert texts_needed(Number(2.0), 1.0, 10) == 10
