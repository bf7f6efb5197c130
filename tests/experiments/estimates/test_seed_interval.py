import pytest
import scipy.stats
import torch

from headwise.errors import ArgumentError
from headwise.experiments.estimates.seed_interval import mean_over_seeds, paired_difference, t_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 50])
@pytest.mark.parametrize("tail", [0.1, 0.025, 0.005])
def test_students_points_are_those_of_scipy(tail, degrees):
    assert t_quantile(tail, degrees) == pytest.approx(scipy.stats.t.ppf(1 - tail, degrees), rel=1e-6)


def test_the_interval_is_scipys():
    values = [1.7, 1.65, 1.72]
    low, high = scipy.stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=scipy.stats.sem(values))
    found = mean_over_seeds(values, "loss", "nats", "5.29")
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.means, found.unit, found.published) == ("loss", "nats", "5.29")


def test_what_seeds_share_is_no_doubt_about_a_difference():
    """Only what is left when the means of seeds and kinds are taken off."""
    seeds, kinds = torch.tensor([0.0, 5.0, -3.0], dtype=torch.float64), torch.tensor([1.0, 0.6, 0.5, 0.8], dtype=torch.float64)
    torch.manual_seed(0)
    noise = 0.01 * torch.randn(3, 4, dtype=torch.float64)
    found = paired_difference(seeds[:, None] + kinds + noise, 1, 0, 3)
    assert found.value == pytest.approx(-0.4 + float((noise[:, 1] - noise[:, 0]).mean()))
    rest = noise - noise.mean(0) - noise.mean(1, keepdim=True) + noise.mean()
    half = scipy.stats.t.ppf(1 - 0.025 / 3, 6) * (2 / 3 * float(rest.square().sum()) / 6) ** 0.5
    assert found.high - found.low == pytest.approx(2 * half)


def test_too_few_are_refused():
    with pytest.raises(ArgumentError, match=r"An interval over trainings needs at least two of them, got 1\. Train with more seeds"):
        mean_over_seeds([1.0])
    with pytest.raises(ArgumentError, match=r"A paired difference needs at least two seeds and two kinds, got 1 and 3\. Train with more seeds"):
        paired_difference(torch.zeros(1, 3, dtype=torch.float64), 0, 1, 2)
