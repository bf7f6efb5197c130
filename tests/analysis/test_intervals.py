"""Intervals are what statistics books say, and texts are what is drawn."""

import torch

from headwise.analysis.intervals import bootstrap


def test_the_mean_is_over_answers_and_the_interval_covers():
    generator = torch.Generator().manual_seed(3)
    inside = 0
    for trial in range(60):
        counts = torch.randint(1, 9, (40,), generator=generator).float()
        sums = torch.stack([torch.rand(int(n), generator=generator).sum() for n in counts])
        found = bootstrap(sums, counts, seed=trial)
        assert abs(float(found.mean) - float(sums.sum() / counts.sum())) < 1e-6
        inside += float(found.low) <= 0.5 <= float(found.high)
    assert 50 <= inside <= 60


def test_answers_about_one_text_are_drawn_together():
    """Forty copies of the same answer in each of five texts say no more than five answers."""
    sums, counts = torch.tensor([40.0, 0.0, 40.0, 0.0, 40.0]), torch.full((5,), 40.0)
    wide = bootstrap(sums, counts)
    narrow = bootstrap(torch.cat([torch.ones(120), torch.zeros(80)]), torch.ones(200))
    assert float(wide.high - wide.low) > 4 * float(narrow.high - narrow.low)


def test_the_spread_is_the_standard_error():
    sums = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
    found = bootstrap(sums, torch.ones(400))
    torch.testing.assert_close(found.spread.float(), sums.std(0) / 20, rtol=0.15, atol=0)
