import copy

import pytest

from headwise.experiments.claims.more_heads import ENTRY, judge
from headwise.experiments.trained import stored_results as results


def planted(by_heads: dict[int, float], noise: float = 0.001) -> dict:
    """Results with these losses; seeds differ by much, and within a seed the losses by little."""
    models = [
        {"heads": heads, "seed": seed, "loss": loss + 0.1 * seed + noise * ((7 * heads + 3 * seed) % 5 - 2)}
        for seed in (0, 1, 2)
        for heads, loss in by_heads.items()
    ]
    return {"settings": {"heads": list(by_heads), "seeds": [0, 1, 2], "width": 64}, "models": models, "cost": {str(heads): 1.0 for heads in by_heads}}


@pytest.mark.parametrize(
    ("by_heads", "verdict"),
    [
        ({1: 2.0, 2: 1.9, 4: 1.8, 8: 1.7}, "kept"),
        ({1: 2.0, 2: 1.8, 4: 1.7, 8: 1.9}, "corrected"),
        ({1: 1.7, 2: 1.8, 4: 1.9, 8: 2.0}, "cut"),
        ({1: 2.0, 2: 1.9, 4: 1.8, 8: 1.8}, "inconclusive"),
    ],
)
def test_the_verdict_follows_from_the_losses(by_heads, verdict):
    card = judge(planted(by_heads))
    assert card.verdict == verdict
    assert card.correction == ("Better up to a point." if verdict == "corrected" else "")
    assert ("no doubling of the heads certainly increases the loss" in card.summary) == (verdict == "inconclusive")


def test_where_noise_is_as_large_as_the_differences_nothing_can_be_told():
    assert judge(planted({1: 2.0, 2: 1.8, 4: 1.7, 8: 1.9}, noise=0.2)).verdict == "inconclusive"


def test_a_slow_rise_beyond_the_best_refutes_it_too():
    """No single doubling is certainly worse, but most heads are certainly worse than the best number."""
    card = judge(planted({1: 2.0, 2: 1.80, 4: 1.802, 8: 1.804, 16: 1.806}, noise=0.0012))
    assert card.numbers["most against best"].low > 0
    assert card.verdict == "corrected"


def test_the_card_shows_what_was_trained_beside_what_was_published():
    found = results.read("more_heads")
    card = ENTRY.run(None)
    assert card.verdict == judge(copy.deepcopy(found)).verdict
    for heads, perplexity in {1: "5.29", 4: "5.00", 8: "4.92", 16: "4.91", 32: "5.01"}.items():
        number = card.numbers[f"loss, h = {heads}"]
        losses = [model["loss"] for model in found["models"] if model["heads"] == heads]
        assert number.value == pytest.approx(sum(losses) / 3) and number.low < number.value < number.high
        assert perplexity in number.published
    assert card.numbers["cost, h = 1"].value == 1.0
    assert list(card.plot.series[0].x) == [1, 2, 4, 8, 16, 32]
    assert not ENTRY.about_model and not card.cited
