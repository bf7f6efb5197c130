"""Intervals of what is no mean over texts."""

import pytest
import torch

from headwise.analysis.intervals import bootstrap
from headwise.experiments.estimates.bootstrap_statistic import bootstrap_statistic

VALUES = torch.rand(11, 3, generator=torch.Generator().manual_seed(0)).double()
COUNTS = torch.tensor([float(1 + number % 4) for number in range(11)])


def test_of_a_mean_it_is_the_bootstrap():
    known = bootstrap(VALUES * COUNTS[:, None], COUNTS, seed=5)
    for head in range(3):
        found = bootstrap_statistic(VALUES, COUNTS, lambda mean, head=head: mean[:, head], seed=5)
        assert (found.value, found.low, found.high) == pytest.approx((float(known.mean[head]), float(known.low[head]), float(known.high[head])), rel=1e-12)


def test_of_the_largest_head_it_follows_the_draws():
    found = bootstrap_statistic(VALUES, COUNTS, lambda mean: mean.amax(-1), means="the loudest", unit="nats", published="more")
    mean = (VALUES * COUNTS[:, None]).sum(0) / COUNTS.sum()
    assert found.value == pytest.approx(float(mean.max()))
    assert found.low < found.value < found.high
    assert (found.means, found.unit, found.published) == ("the loudest", "nats", "more")


def test_one_text_has_no_interval():
    found = bootstrap_statistic(VALUES[:1], COUNTS[:1], lambda mean: mean.amax(-1))
    assert (found.low, found.high) == (None, None)
    assert found.value == pytest.approx(float(VALUES[0].max()))


def test_draws_without_a_number_are_left_out():
    values = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.float64)
    found = bootstrap_statistic(values, torch.ones(3), lambda mean: 1 / mean[:, 0])
    assert found.value == pytest.approx(1.5)
    assert found.high == pytest.approx(3.0)
